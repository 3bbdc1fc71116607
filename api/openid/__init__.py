"""Sign-in by OpenID Connect: the code flow with PKCE, and teams and roles that follow from the provider's claims."""
