"""Linear and integer programs by HiGHS, integer ones in a process of their own."""
