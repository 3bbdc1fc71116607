// The REST API as the page uses it. The types are the API's own: `make types` writes openapi.ts. The token is sent once, to
// sign in; from then on the browser has a cookie, which no script can read.
import createClient from "openapi-fetch";
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

  // There is nothing under this address, or nothing can be.
  get isOfNothing(): boolean {
    return this.status === 404 || this.status === 422;
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

// The query of a path, as the API describes it; InAddress: a parameter may also be text, which is all that an address has.
type QueryOf<P extends keyof paths> = paths[P] extends { get: { parameters: { query?: infer T } } } ? T : never;
type InAddress<P extends keyof paths> = { [K in keyof QueryOf<P>]?: QueryOf<P>[K] | string };

// Its types are the OpenAPI document's: a path, a parameter or a field that the API does not have is an error of the build.
const client = createClient<paths>({ fetch: (request) => answered(() => fetch(request.clone())) });

// What a request is answered; what is refused was thrown before.
async function told<T>(asked: Promise<{ data?: T }>): Promise<T> {
  return (await asked).data as T;
}

export const api = {
  signIn: (token: string) => told(client.POST("/v1/session", { body: { token } })),
  signOut: () => told(client.DELETE("/v1/session")),
  ways: () => told(client.GET("/v1/session/ways")),
  signInElsewhere: (return_to: string) => told(client.POST("/v1/session/openid", { body: { return_to } })),
  changeTeam: (team_id: string) => told(client.PATCH("/v1/session", { body: { team_id } })),
  team: () => told(client.GET("/v1/teams/me")),
  settings: (team_id: string) => told(client.GET("/v1/teams/{team_id}/settings", { params: { path: { team_id } } })),
  changeSettings: (team_id: string, to: schemas.SettingsChange) =>
    told(client.PATCH("/v1/teams/{team_id}/settings", { params: { path: { team_id } }, body: to })),
  retention: (team_id: string) => told(client.GET("/v1/teams/{team_id}/retention", { params: { path: { team_id } } })),
  changeRetention: (team_id: string, to: schemas.RetentionWanted) =>
    told(client.PUT("/v1/teams/{team_id}/retention", { params: { path: { team_id } }, body: to })),
  retentionDue: (team_id: string, query: QueryOf<"/v1/teams/{team_id}/retention/due">) =>
    told(client.GET("/v1/teams/{team_id}/retention/due", { params: { path: { team_id }, query } })),
  usage: (team_id: string) => told(client.GET("/v1/teams/{team_id}/usage", { params: { path: { team_id } } })),
  members: (team_id: string) => told(client.GET("/v1/teams/{team_id}/members", { params: { path: { team_id } } })),
  addMember: (team_id: string, member: schemas.MemberIn) => told(client.POST("/v1/teams/{team_id}/members", { params: { path: { team_id } }, body: member })),
  changeMember: (team_id: string, member_id: string, to: schemas.MemberChange) =>
    told(client.PATCH("/v1/teams/{team_id}/members/{member_id}", { params: { path: { team_id, member_id } }, body: to })),
  removeMember: (team_id: string, member_id: string) =>
    told(client.DELETE("/v1/teams/{team_id}/members/{member_id}", { params: { path: { team_id, member_id } } })),
  tokens: (team_id: string) => told(client.GET("/v1/teams/{team_id}/tokens", { params: { path: { team_id } } })),
  makeToken: (team_id: string, token: schemas.TokenIn) => told(client.POST("/v1/teams/{team_id}/tokens", { params: { path: { team_id } }, body: token })),
  revokeToken: (team_id: string, token_id: string) =>
    told(client.DELETE("/v1/teams/{team_id}/tokens/{token_id}", { params: { path: { team_id, token_id } } })),
  audit: (team_id: string, wanted: { action?: schemas.AuditEventOut["action"]; member?: string; since?: string; until?: string }, cursor?: string) =>
    told(client.GET("/v1/teams/{team_id}/audit", { params: { path: { team_id }, query: { ...wanted, cursor } } })),
  makeAlert: (alert: schemas.AlertIn) => told(client.POST("/v1/alerts", { body: alert })),
  changeAlert: (alert_id: string, to: schemas.AlertChange) => told(client.PATCH("/v1/alerts/{alert_id}", { params: { path: { alert_id } }, body: to })),
  removeAlert: (alert_id: string) => told(client.DELETE("/v1/alerts/{alert_id}", { params: { path: { alert_id } } })),
  webhooks: () => told(client.GET("/v1/webhooks")),
  makeWebhook: (webhook: schemas.WebhookIn) => told(client.POST("/v1/webhooks", { body: webhook })),
  removeWebhook: (webhook_id: string) => told(client.DELETE("/v1/webhooks/{webhook_id}", { params: { path: { webhook_id } } })),
  renewSecret: (webhook_id: string) => told(client.POST("/v1/webhooks/{webhook_id}/secret", { params: { path: { webhook_id } } })),
  testWebhook: (webhook_id: string) => told(client.POST("/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id } } })),
  deliveries: (webhook_id: string) => told(client.GET("/v1/webhooks/{webhook_id}/deliveries", { params: { path: { webhook_id }, query: { limit: 20 } } })),
  captures: (filters: Query, sort: string | undefined, limit: number, cursor?: string) =>
    told(client.GET("/v1/captures", { params: { query: { ...filters, sort, limit, cursor } as QueryOf<"/v1/captures"> } })),
  capture: (capture_id: string) => told(client.GET("/v1/captures/{capture_id}", { params: { path: { capture_id } } })),
  groups: (capture_id: string, cursor: string) =>
    told(client.GET("/v1/captures/{capture_id}/fairness", { params: { path: { capture_id }, query: { cursor, limit: 20 } } })),
  remove: (capture_id: string) => told(client.DELETE("/v1/captures/{capture_id}", { params: { path: { capture_id } } })),
  change: (capture_id: string, to: schemas.CaptureChange) =>
    told(client.PATCH("/v1/captures/{capture_id}", { params: { path: { capture_id } }, body: to })),
  changeCaptures: (wanted: schemas.CapturesChange) => told(client.POST("/v1/captures/changes", { body: wanted })),
  removeCaptures: (wanted: schemas.CapturesDeletion) => told(client.POST("/v1/captures/deletions", { body: wanted })),
  replays: (wanted: schemas.ReplaysIn) => told(client.POST("/v1/replays", { body: wanted })),
  search: (filters: Query, sort: string, cursor?: string, limit = 100) =>
    told(client.GET("/v1/connections", { params: { query: { ...filters, sort, cursor, limit } as QueryOf<"/v1/connections"> } })),
  values: (filters: Query, field: string[], limit = 10, containing = "") =>
    told(client.GET("/v1/connections/values", { params: { query: { ...filters, field, limit, ...(containing && { containing }) } as unknown as QueryOf<"/v1/connections/values"> } })),
  names: () => told(client.GET("/v1/connections/names")),
  aggregates: (filters: Query, measure: string, group_by: string[], include_unreliable: boolean) =>
    told(client.GET("/v1/aggregates", { params: { query: { ...filters, measure, group_by, include_unreliable, limit: 500 } as unknown as QueryOf<"/v1/aggregates"> } })),
  comparison: (selection: Query, baseline: Query, measure: string, include_unreliable: boolean) =>
    told(client.GET("/v1/aggregates/comparison", { params: { query: { selection: textOf(selection), baseline: textOf(baseline), measure, include_unreliable, histogram: true, limit: 8 } } })),
  changes: (filters: Query, split: string, measure: string[], group_by: string[], include_unreliable: boolean) =>
    told(client.GET("/v1/aggregates/changes", { params: { query: { ...filters, split, measure, group_by, include_unreliable } as unknown as QueryOf<"/v1/aggregates/changes"> } })),
  retry: (capture_id: string) => told(client.POST("/v1/captures/{capture_id}/retry", { params: { path: { capture_id } } })),
  connection: (connection_id: string) => told(client.GET("/v1/connections/{connection_id}", { params: { path: { connection_id } } })),
  // Of the ways in which these two are answered, JSON is asked for.
  series: (connection_id: string, query: InAddress<"/v1/connections/{connection_id}/series">) =>
    told(client.GET("/v1/connections/{connection_id}/series", { params: { path: { connection_id }, query: query as QueryOf<"/v1/connections/{connection_id}/series"> } })) as Promise<Series>,
  sequence: (connection_id: string, query: InAddress<"/v1/connections/{connection_id}/sequence">) =>
    told(client.GET("/v1/connections/{connection_id}/sequence", { params: { path: { connection_id }, query: query as QueryOf<"/v1/connections/{connection_id}/sequence"> } })) as Promise<Sequence>,
  acks: (connection_id: string, query: InAddress<"/v1/connections/{connection_id}/acks">) =>
    told(client.GET("/v1/connections/{connection_id}/acks", { params: { path: { connection_id }, query: query as QueryOf<"/v1/connections/{connection_id}/acks"> } })),
  notes: (connection_id: string) => told(client.GET("/v1/connections/{connection_id}/notes", { params: { path: { connection_id } } })),
  addNote: (connection_id: string, note: schemas.NoteIn) =>
    told(client.POST("/v1/connections/{connection_id}/notes", { params: { path: { connection_id } }, body: note })),
  changeNote: (connection_id: string, note_id: string, to: schemas.NoteChange) =>
    told(client.PATCH("/v1/connections/{connection_id}/notes/{note_id}", { params: { path: { connection_id, note_id } }, body: to })),
  removeNote: (connection_id: string, note_id: string) =>
    told(client.DELETE("/v1/connections/{connection_id}/notes/{note_id}", { params: { path: { connection_id, note_id } } })),
  askSegments: (connection_id: string) => told(client.POST("/v1/connections/{connection_id}/segments", { params: { path: { connection_id } } })),
  algorithms: () => told(client.GET("/v1/algorithms")),
  replay: (connection_id: string, algorithm: string, options: Record<string, string>) =>
    told(client.POST("/v1/connections/{connection_id}/replays", { params: { path: { connection_id } }, body: { algorithm, options } })),
  removeReplay: (connection_id: string, replay_id: string) =>
    told(client.DELETE("/v1/connections/{connection_id}/replays/{replay_id}", { params: { path: { connection_id, replay_id } } })),
  whatifs: (connection_id: string) =>
    told(client.GET("/v1/connections/{connection_id}/whatifs", { params: { path: { connection_id }, query: { limit: 100 } } })),
  askWhatIf: (connection_id: string, wanted: schemas.WhatIfIn) =>
    told(client.POST("/v1/connections/{connection_id}/whatifs", { params: { path: { connection_id } }, body: wanted })),
  removeWhatIf: (whatif_id: string) => told(client.DELETE("/v1/whatifs/{whatif_id}", { params: { path: { whatif_id } } })),
  sweep: (wanted: schemas.SweepIn) => told(client.POST("/v1/whatifs", { body: wanted })),
  sweeps: (cursor?: string) => told(client.GET("/v1/sweeps", { params: { query: { cursor, limit: 5 } } })),
  sweepDetail: (sweep_id: string) => told(client.GET("/v1/sweeps/{sweep_id}", { params: { path: { sweep_id } } })),
  swept: (sweep_id: string, label: string, cursor?: string) =>
    told(client.GET("/v1/sweeps/{sweep_id}/whatifs", { params: { path: { sweep_id }, query: { label, cursor, limit: 50 } } })),
  removeSweep: (sweep_id: string) => told(client.DELETE("/v1/sweeps/{sweep_id}", { params: { path: { sweep_id } } })),
  views: (page: View["page"]) => told(client.GET("/v1/views", { params: { query: { page } } })),
  saveView: (view: schemas.ViewIn) => told(client.POST("/v1/views", { body: view })),
  changeView: (view_id: string, to: schemas.ViewChange) => told(client.PATCH("/v1/views/{view_id}", { params: { path: { view_id } }, body: to })),
  removeView: (view_id: string) => told(client.DELETE("/v1/views/{view_id}", { params: { path: { view_id } } })),
  specs: () => told(client.GET("/v1/specs")),
  modelChecks: (limit: number, cursor?: string) => told(client.GET("/v1/model-checks", { params: { query: { limit, cursor } } })),
  checksOf: (connection: string) => told(client.GET("/v1/model-checks", { params: { query: { limit: 50, connection } } })),
  // The client's types make lists of pairs.
  modelCheck: (check_id: string) => told(client.GET("/v1/model-checks/{check_id}", { params: { path: { check_id } } })) as Promise<ModelCheckDetail>,
  cancelModelCheck: (check_id: string) => told(client.POST("/v1/model-checks/{check_id}/cancel", { params: { path: { check_id } } })),
  askModelCheck: (wanted: schemas.ModelCheckIn) => told(client.POST("/v1/model-checks", { body: wanted })),
  upload: (upload_id: string) => told(client.GET("/v1/uploads/{upload_id}", { params: { path: { upload_id } } })),
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
