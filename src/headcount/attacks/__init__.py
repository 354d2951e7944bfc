"""What an attacker can do with a release and with what they know already."""
