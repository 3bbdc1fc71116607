// A real OpenID Connect provider for tests: `node provider.mjs '["REDIRECT_URI", ...]'` prints its issuer and serves it until
// standard input ends. What it says of people, and how, is changed by POST /control, while what it has granted stays.
import { createServer } from "node:http";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { Provider } from "oidc-provider";

const redirects = JSON.parse(process.argv[2]);
const asked = {}; // how often, by path
const state = { people: {}, options: {}, keys: [] };
let serve;

function newKey() {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "ES256" };
}

function build(issuer) {
  const { algorithm = "ES256", in_id_token = false, lasts = 600, refreshes = true } = state.options;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "rewindow",
        client_secret: "the secret of rewindow: with a colon, %, +",
        redirect_uris: redirects,
        post_logout_redirect_uris: redirects.map((r) => new URL("/", r).href),
        grant_types: ["authorization_code", "refresh_token"],
        id_token_signed_response_alg: algorithm,
      },
    ],
    jwks: { keys: state.keys },
    enabledJWA: { idTokenSigningAlgValues: ["ES256", "HS256"] },
    cookies: { keys: ["of a test"] },
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    conformIdTokenClaims: !in_id_token,
    pkce: { required: () => true },
    ttl: { IdToken: lasts, AccessToken: 60, AuthorizationCode: 60, RefreshToken: 3600, Interaction: 600, Session: 3600, Grant: 3600 },
    issueRefreshToken: async () => refreshes,
    rotateRefreshToken: true,
    // Nobody is asked for consent.
    async loadExistingGrant(ctx) {
      const { client, session, params } = ctx.oidc;
      const grant = new ctx.oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId });
      grant.addOIDCScope(params.scope);
      await grant.save();
      return grant;
    },
    async findAccount(_, id) {
      const its = state.people[id];
      if (its) return { accountId: id, claims: async () => ({ sub: id, ...its }) };
    },
  });
  provider.on("server_error", (_, e) => console.error(e));
  serve = provider.callback();
}

const server = createServer(async (request, response) => {
  const path = request.url.split("?")[0];
  asked[path] = (asked[path] ?? 0) + 1;
  if (path !== "/control") return serve(request, response);
  let body = "";
  for await (const piece of request) body += piece;
  const { people, options, rotate } = JSON.parse(body || "{}");
  Object.assign(state.people, people);
  Object.assign(state.options, options);
  if (rotate) state.keys = [newKey()];
  if (options || rotate) build(issuer());
  response.end(JSON.stringify(asked));
});
const issuer = () => `http://127.0.0.1:${server.address().port}`;
server.listen(0, "127.0.0.1", () => {
  state.keys = [newKey()];
  build(issuer());
  console.log(issuer());
});
process.stdin.resume().on("end", () => process.exit());
