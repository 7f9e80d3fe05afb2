"""What ``loadtests/locustfile.py`` asks, when, and how it checks the replies; free of locust."""
