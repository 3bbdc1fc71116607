// The REST API as the page uses it. The types are the API's own: `make types` writes openapi.ts. The token is sent once, to
// sign in; from then on the browser has a cookie, which no script can read.
import type { paths } from "./openapi";
import type * as schemas from "./openapi";
import { textOf, type Query } from "./filters";

export type Team = schemas.TeamOut;
export type Settings = schemas.SettingsOut;
export type Usage = schemas.UsageOut;
export type Retention = schemas.RetentionOut;
export type Due = schemas.DueOut;
export type Member = schemas.MemberOut;
export type Token = schemas.TokenOut;
export type TokenMade = schemas.TokenMade;
export type Alert = schemas.AlertOut;
// What an event of /v1/alerts/events tells. messages: for each webhook a text that is another one when its messages have changed.
export interface AlertsNow {
  alerts: Alert[];
  messages: Record<string, string>;
}
export type Webhook = schemas.WebhookOut;
export type WebhookMade = schemas.WebhookMade;
export type Delivery = schemas.DeliveryOut;
export type AuditEvent = schemas.AuditEventOut;
export type Capture = schemas.CaptureOut;
export type CaptureReceived = schemas.CaptureReceived;
export type CaptureSelection = schemas.CaptureSelection;
export type Selection = schemas.SelectionIn;
export type CaptureDetail = schemas.CaptureDetail;
export type ConnectionQuality = schemas.ConnectionQuality;
export type Connection = schemas.ConnectionOut;
export type ConnectionDetail = schemas.ConnectionDetail;
export type ConnectionFound = schemas.ConnectionFound;
export type FieldValues = schemas.FieldValues;
export type Aggregates = schemas.AggregatesOut;
export type Aggregate = schemas.AggregateOut;
export type Comparison = schemas.ComparisonOut;
export type Changes = schemas.ChangesOut;
export type Verdict = Connection["verdict"];
export type Series = schemas.SeriesOut;
export type Sequence = schemas.SequenceOut;
export type Segments = schemas.SegmentsOut;
export type Note = schemas.NoteOut;
export type View = schemas.ViewOut;
export type Algorithm = schemas.AlgorithmOut;
export type Spec = schemas.SpecOut;
export type CheckVerdict = NonNullable<ModelCheck["verdict"]>;
export type ModelCheck = schemas.ModelCheckOut;
export type ModelCheckDetail = schemas.ModelCheckDetail;
export type WhatIf = schemas.WhatIfOut;
export type Prediction = schemas.PredictionOut;
export type Spread = schemas.SpreadOut;
export type Flights = schemas.FlightsOut;
export type Sweep = schemas.SweepOut;
export type SweepDetail = schemas.SweepDetail;
export type SweepAnswer = schemas.AnswerOut;
export type Swept = schemas.SweptOut;
export type Step = schemas.Step;
export type StepRefused = schemas.StepRefused;
export type ControllerState = schemas.ControllerState;
export type Allowed = schemas.Allowed;
export type DetectorState = schemas.DetectorState;
export type DetectorAllowed = schemas.DetectorAllowed;

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

// Earlier versions kept the token there.
localStorage.removeItem("rewindow.token");

// Called when the server does not know the browser any more.
let signedOut = () => {};
export function onSignedOut(then: () => void) {
  signedOut = then;
}

export function refused(status: number, statusText: string, body: string): Refused {
  if (status === 401) signedOut();
  let detail: unknown;
  try {
    detail = JSON.parse(body).detail;
  } catch {
    // A proxy answers what is no JSON: its status has to do.
  }
  const next = status >= 500 ? ": try again in a minute, and tell those who run it if that does not help" : "";
  const told = typeof detail === "string" && detail.replace(/^(query|body)\./, ""); // where it was, in words of HTTP
  return new Refused(status, told || `the server answers ${status} ${statusText}`.trim() + next);
}

// A server that answers 429 or 503 has done nothing, and says when to ask again. The page waits for it for so long.
const PATIENCE_MS = 30_000;

function isBusy(status: number): boolean {
  return status === 429 || status === 503;
}

// Waits as long as the server says. False: that would be longer than until `end` (of performance.now).
async function waited(retryAfter: string | null, end: number): Promise<boolean> {
  const wait = /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : 1000;
  if (performance.now() + wait > end) return false;
  await new Promise((resolve) => setTimeout(resolve, wait));
  return true;
}

async function answered(request: () => Promise<Response>): Promise<Response> {
  const end = performance.now() + PATIENCE_MS;
  let response: Response;
  do {
    try {
      response = await request();
    } catch {
      throw new Error("the server does not answer: see whether this machine is connected, and try again");
    }
  } while (isBusy(response.status) && (await waited(response.headers.get("Retry-After"), end)));
  if (!response.ok) throw refused(response.status, response.statusText, await response.text());
  return response;
}

type Method = "get" | "post" | "delete" | "patch" | "put";
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : undefined;
type Succeeded<R> = Json<R[keyof R & (200 | 201 | 202 | 204)]>;
type Answer<P extends keyof paths, M extends Method> = paths[P][M] extends { responses: infer R } ? Succeeded<R> : never;
type InPath<P extends keyof paths, M extends Method> = paths[P][M] extends { parameters: { path: infer T } } ? T : Record<string, never>;
// A parameter may also be given as text, because an address contains text only.
type InQuery<P extends keyof paths, M extends Method> = paths[P][M] extends { parameters: { query?: infer T } }
  ? { [K in keyof T]?: T[K] | string }
  : never;
type InBody<P extends keyof paths, M extends Method> = paths[P][M] extends {
  requestBody: { content: { "application/json": infer T } };
}
  ? T
  : never;

interface Asked<P extends keyof paths, M extends Method> {
  path?: InPath<P, M>;
  query?: InQuery<P, M>;
  body?: InBody<P, M>;
}

// Parameters that are undefined are left out, and a list repeats its parameter.
function address(template: string, path: object, query: object): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String((path as Record<string, unknown>)[name])));
  const given = Object.entries(query).filter(([, v]) => v !== undefined && v !== null);
  const pairs = given.flatMap(([k, v]) => (Array.isArray(v) ? v : [v]).map((one) => [k, String(one)]));
  const text = new URLSearchParams(pairs).toString();
  return text ? `${filled}?${text}` : filled;
}

async function ask<P extends keyof paths, M extends Method>(
  method: M,
  template: P,
  { path = {} as InPath<P, M>, query = {} as InQuery<P, M>, body }: Asked<P, M> = {},
): Promise<Answer<P, M>> {
  const response = await answered(() =>
    fetch(address(template, path as object, query as object), {
      method: method.toUpperCase(),
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    }),
  );
  return response.status === 204 ? (undefined as Answer<P, M>) : response.json();
}

export const api = {
  signIn: (token: string) => ask("post", "/v1/session", { body: { token } }),
  signOut: () => ask("delete", "/v1/session"),
  ways: () => ask("get", "/v1/session/ways"),
  signInElsewhere: (return_to: string) => ask("post", "/v1/session/openid", { body: { return_to } }),
  changeTeam: (team_id: string) => ask("patch", "/v1/session", { body: { team_id } }),
  team: () => ask("get", "/v1/teams/me"),
  settings: (team_id: string) => ask("get", "/v1/teams/{team_id}/settings", { path: { team_id } }),
  changeSettings: (team_id: string, to: schemas.SettingsChange) =>
    ask("patch", "/v1/teams/{team_id}/settings", { path: { team_id }, body: to }),
  retention: (team_id: string) => ask("get", "/v1/teams/{team_id}/retention", { path: { team_id } }),
  changeRetention: (team_id: string, to: schemas.RetentionWanted) =>
    ask("put", "/v1/teams/{team_id}/retention", { path: { team_id }, body: to }),
  retentionDue: (team_id: string, query: InQuery<"/v1/teams/{team_id}/retention/due", "get">) =>
    ask("get", "/v1/teams/{team_id}/retention/due", { path: { team_id }, query }),
  usage: (team_id: string) => ask("get", "/v1/teams/{team_id}/usage", { path: { team_id } }),
  members: (team_id: string) => ask("get", "/v1/teams/{team_id}/members", { path: { team_id } }),
  addMember: (team_id: string, member: schemas.MemberIn) => ask("post", "/v1/teams/{team_id}/members", { path: { team_id }, body: member }),
  changeMember: (team_id: string, member_id: string, to: schemas.MemberChange) =>
    ask("patch", "/v1/teams/{team_id}/members/{member_id}", { path: { team_id, member_id }, body: to }),
  removeMember: (team_id: string, member_id: string) =>
    ask("delete", "/v1/teams/{team_id}/members/{member_id}", { path: { team_id, member_id } }),
  tokens: (team_id: string) => ask("get", "/v1/teams/{team_id}/tokens", { path: { team_id } }),
  makeToken: (team_id: string, token: schemas.TokenIn) => ask("post", "/v1/teams/{team_id}/tokens", { path: { team_id }, body: token }),
  revokeToken: (team_id: string, token_id: string) =>
    ask("delete", "/v1/teams/{team_id}/tokens/{token_id}", { path: { team_id, token_id } }),
  audit: (team_id: string, wanted: { action?: schemas.AuditEventOut["action"]; member?: string; since?: string; until?: string }, cursor?: string) =>
    ask("get", "/v1/teams/{team_id}/audit", { path: { team_id }, query: { ...wanted, cursor } }),
  makeAlert: (alert: schemas.AlertIn) => ask("post", "/v1/alerts", { body: alert }),
  changeAlert: (alert_id: string, to: schemas.AlertChange) => ask("patch", "/v1/alerts/{alert_id}", { path: { alert_id }, body: to }),
  removeAlert: (alert_id: string) => ask("delete", "/v1/alerts/{alert_id}", { path: { alert_id } }),
  webhooks: () => ask("get", "/v1/webhooks"),
  makeWebhook: (webhook: schemas.WebhookIn) => ask("post", "/v1/webhooks", { body: webhook }),
  removeWebhook: (webhook_id: string) => ask("delete", "/v1/webhooks/{webhook_id}", { path: { webhook_id } }),
  renewSecret: (webhook_id: string) => ask("post", "/v1/webhooks/{webhook_id}/secret", { path: { webhook_id } }),
  testWebhook: (webhook_id: string) => ask("post", "/v1/webhooks/{webhook_id}/test", { path: { webhook_id } }),
  deliveries: (webhook_id: string) => ask("get", "/v1/webhooks/{webhook_id}/deliveries", { path: { webhook_id }, query: { limit: 20 } }),
  captures: (filters: Query, sort: string | undefined, limit: number, cursor?: string) =>
    ask("get", "/v1/captures", { query: { ...filters, sort, limit, cursor } as InQuery<"/v1/captures", "get"> }),
  capture: (capture_id: string) => ask("get", "/v1/captures/{capture_id}", { path: { capture_id } }),
  remove: (capture_id: string) => ask("delete", "/v1/captures/{capture_id}", { path: { capture_id } }),
  change: (capture_id: string, to: schemas.CaptureChange) =>
    ask("patch", "/v1/captures/{capture_id}", { path: { capture_id }, body: to }),
  changeCaptures: (wanted: schemas.CapturesChange) => ask("post", "/v1/captures/changes", { body: wanted }),
  removeCaptures: (wanted: schemas.CapturesDeletion) => ask("post", "/v1/captures/deletions", { body: wanted }),
  replays: (wanted: schemas.ReplaysIn) => ask("post", "/v1/replays", { body: wanted }),
  search: (filters: Query, sort: string, cursor?: string, limit = 100) =>
    ask("get", "/v1/connections", { query: { ...filters, sort, cursor, limit } as InQuery<"/v1/connections", "get"> }),
  values: (filters: Query, field: string[], limit = 10, containing = "") =>
    ask("get", "/v1/connections/values", { query: { ...filters, field, limit, ...(containing && { containing }) } as unknown as InQuery<"/v1/connections/values", "get"> }),
  names: () => ask("get", "/v1/connections/names"),
  aggregates: (filters: Query, measure: string, group_by: string[], include_unreliable: boolean) =>
    ask("get", "/v1/aggregates", { query: { ...filters, measure, group_by, include_unreliable, limit: 500 } as unknown as InQuery<"/v1/aggregates", "get"> }),
  comparison: (selection: Query, baseline: Query, measure: string, include_unreliable: boolean) =>
    ask("get", "/v1/aggregates/comparison", {
      query: { selection: textOf(selection), baseline: textOf(baseline), measure, include_unreliable, histogram: true, limit: 8 },
    }),
  changes: (filters: Query, split: string, measure: string[], group_by: string[], include_unreliable: boolean) =>
    ask("get", "/v1/aggregates/changes", {
      query: { ...filters, split, measure, group_by, include_unreliable } as unknown as InQuery<"/v1/aggregates/changes", "get">,
    }),
  retry: (capture_id: string) => ask("post", "/v1/captures/{capture_id}/retry", { path: { capture_id } }),
  connection: (connection_id: string) => ask("get", "/v1/connections/{connection_id}", { path: { connection_id } }),
  series: (connection_id: string, query: InQuery<"/v1/connections/{connection_id}/series", "get">) =>
    ask("get", "/v1/connections/{connection_id}/series", { path: { connection_id }, query }),
  sequence: (connection_id: string, query: InQuery<"/v1/connections/{connection_id}/sequence", "get">) =>
    ask("get", "/v1/connections/{connection_id}/sequence", { path: { connection_id }, query }),
  acks: (connection_id: string, query: InQuery<"/v1/connections/{connection_id}/acks", "get">) =>
    ask("get", "/v1/connections/{connection_id}/acks", { path: { connection_id }, query }),
  notes: (connection_id: string) => ask("get", "/v1/connections/{connection_id}/notes", { path: { connection_id } }),
  addNote: (connection_id: string, note: schemas.NoteIn) =>
    ask("post", "/v1/connections/{connection_id}/notes", { path: { connection_id }, body: note }),
  changeNote: (connection_id: string, note_id: string, to: schemas.NoteChange) =>
    ask("patch", "/v1/connections/{connection_id}/notes/{note_id}", { path: { connection_id, note_id }, body: to }),
  removeNote: (connection_id: string, note_id: string) =>
    ask("delete", "/v1/connections/{connection_id}/notes/{note_id}", { path: { connection_id, note_id } }),
  askSegments: (connection_id: string) => ask("post", "/v1/connections/{connection_id}/segments", { path: { connection_id } }),
  algorithms: () => ask("get", "/v1/algorithms"),
  replay: (connection_id: string, algorithm: string, options: Record<string, string>) =>
    ask("post", "/v1/connections/{connection_id}/replays", { path: { connection_id }, body: { algorithm, options } }),
  removeReplay: (connection_id: string, replay_id: string) =>
    ask("delete", "/v1/connections/{connection_id}/replays/{replay_id}", { path: { connection_id, replay_id } }),
  whatifs: (connection_id: string) =>
    ask("get", "/v1/connections/{connection_id}/whatifs", { path: { connection_id }, query: { limit: 100 } }),
  askWhatIf: (connection_id: string, wanted: schemas.WhatIfIn) =>
    ask("post", "/v1/connections/{connection_id}/whatifs", { path: { connection_id }, body: wanted }),
  removeWhatIf: (whatif_id: string) => ask("delete", "/v1/whatifs/{whatif_id}", { path: { whatif_id } }),
  sweep: (wanted: schemas.SweepIn) => ask("post", "/v1/whatifs", { body: wanted }),
  sweeps: () => ask("get", "/v1/sweeps", { query: { limit: 5 } }),
  sweepDetail: (sweep_id: string) => ask("get", "/v1/sweeps/{sweep_id}", { path: { sweep_id } }),
  swept: (sweep_id: string, label: string, cursor?: string) =>
    ask("get", "/v1/sweeps/{sweep_id}/whatifs", { path: { sweep_id }, query: { label, cursor, limit: 50 } }),
  removeSweep: (sweep_id: string) => ask("delete", "/v1/sweeps/{sweep_id}", { path: { sweep_id } }),
  views: (page: View["page"]) => ask("get", "/v1/views", { query: { page } }),
  saveView: (view: schemas.ViewIn) => ask("post", "/v1/views", { body: view }),
  changeView: (view_id: string, to: schemas.ViewChange) => ask("patch", "/v1/views/{view_id}", { path: { view_id }, body: to }),
  removeView: (view_id: string) => ask("delete", "/v1/views/{view_id}", { path: { view_id } }),
  specs: () => ask("get", "/v1/specs"),
  modelChecks: (limit: number, cursor?: string) => ask("get", "/v1/model-checks", { query: { limit, cursor } }),
  checksOf: (connection: string) => ask("get", "/v1/model-checks", { query: { limit: 50, connection } }),
  modelCheck: (check_id: string) => ask("get", "/v1/model-checks/{check_id}", { path: { check_id } }),
  cancelModelCheck: (check_id: string) => ask("post", "/v1/model-checks/{check_id}/cancel", { path: { check_id } }),
  askModelCheck: (wanted: schemas.ModelCheckIn) => ask("post", "/v1/model-checks", { body: wanted }),
  upload: (upload_id: string) => ask("get", "/v1/uploads/{upload_id}", { path: { upload_id } }),
};

// From this size on an upload goes on after an interruption, bytes.
const LARGE_BYTES = 16 << 20;

export async function upload(file: File, progress: (part: number) => void): Promise<CaptureReceived> {
  if (file.size >= LARGE_BYTES) return (await import("./resumable")).upload(file, progress);
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const request = await sent(file, progress);
    if (request.status === 202) return JSON.parse(request.responseText);
    if (!isBusy(request.status) || !(await waited(request.getResponseHeader("Retry-After"), end)))
      throw refused(request.status, request.statusText, request.responseText);
  }
}

// XMLHttpRequest, because fetch does not report the progress of an upload.
function sent(file: File, progress: (part: number) => void): Promise<XMLHttpRequest> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/v1/captures?filename=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/vnd.tcpdump.pcap");
    request.upload.onprogress = (e) => progress(e.lengthComputable ? e.loaded / e.total : 0);
    request.onerror = () => reject(new Error("the connection broke; the upload was discarded"));
    request.onload = () => resolve(request);
    request.send(file);
  });
}
