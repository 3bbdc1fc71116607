"""The alerter: evaluates the teams' alerts, and posts messages to their webhooks."""
