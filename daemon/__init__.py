"""The node service. It handles bytes: it never imports torch and never unpickles."""
