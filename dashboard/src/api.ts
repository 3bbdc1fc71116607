// The REST API as the page uses it. The types are the API's own: `make types` writes openapi.ts. The token stays in this
// browser and is never part of an address.
import type { paths } from "./openapi";
import type * as schemas from "./openapi";

export type Capture = schemas.CaptureOut;
export type CaptureDetail = schemas.CaptureDetail;
export type ConnectionQuality = schemas.ConnectionQuality;
export type Connection = schemas.ConnectionOut;
export type ConnectionDetail = schemas.ConnectionDetail;
export type Verdict = Connection["verdict"];
export type Series = schemas.SeriesOut;
export type Algorithm = schemas.AlgorithmOut;
export type Spec = schemas.SpecOut;
export type CheckVerdict = NonNullable<ModelCheck["verdict"]>;
export type ModelCheck = schemas.ModelCheckOut;
export type ModelCheckDetail = schemas.ModelCheckDetail;
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

const KEY = "rewindow.token";

export const token = {
  get: () => localStorage.getItem(KEY) ?? "",
  set: (value: string) => localStorage.setItem(KEY, value.trim()),
  clear: () => localStorage.removeItem(KEY),
};

async function refusal(response: Response): Promise<Refused> {
  const problem = await response.json().catch(() => ({ detail: response.statusText }));
  return new Refused(response.status, problem.detail ?? response.statusText);
}

type Method = "get" | "post" | "delete";
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

// Parameters that are undefined are left out.
function address(template: string, path: object, query: object): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String((path as Record<string, unknown>)[name])));
  const given = Object.entries(query).filter(([, v]) => v !== undefined && v !== null);
  const text = new URLSearchParams(given.map(([k, v]) => [k, String(v)])).toString();
  return text ? `${filled}?${text}` : filled;
}

async function ask<P extends keyof paths, M extends Method>(
  method: M,
  template: P,
  { path = {} as InPath<P, M>, query = {} as InQuery<P, M>, body }: Asked<P, M> = {},
): Promise<Answer<P, M>> {
  const headers: Record<string, string> = { Authorization: `Bearer ${token.get()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(address(template, path as object, query as object), {
    method: method.toUpperCase(),
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? (undefined as Answer<P, M>) : response.json();
}

export const api = {
  team: () => ask("get", "/v1/teams/me"),
  captures: (cursor?: string) => ask("get", "/v1/captures", { query: { cursor } }),
  capture: (capture_id: string) => ask("get", "/v1/captures/{capture_id}", { path: { capture_id } }),
  remove: (capture_id: string) => ask("delete", "/v1/captures/{capture_id}", { path: { capture_id } }),
  connections: (capture_id: string, cursor?: string) =>
    ask("get", "/v1/captures/{capture_id}/connections", { path: { capture_id }, query: { limit: 100, cursor } }),
  connection: (connection_id: string) => ask("get", "/v1/connections/{connection_id}", { path: { connection_id } }),
  series: (connection_id: string, query: InQuery<"/v1/connections/{connection_id}/series", "get">) =>
    ask("get", "/v1/connections/{connection_id}/series", { path: { connection_id }, query }),
  algorithms: () => ask("get", "/v1/algorithms"),
  replay: (connection_id: string, algorithm: string, options: Record<string, string>) =>
    ask("post", "/v1/connections/{connection_id}/replays", { path: { connection_id }, body: { algorithm, options } }),
  specs: () => ask("get", "/v1/specs"),
  modelChecks: (cursor?: string) => ask("get", "/v1/model-checks", { query: { limit: 20, cursor } }),
  checksOf: (connection: string) => ask("get", "/v1/model-checks", { query: { limit: 50, connection } }),
  modelCheck: (check_id: string) => ask("get", "/v1/model-checks/{check_id}", { path: { check_id } }),
  cancelModelCheck: (check_id: string) => ask("post", "/v1/model-checks/{check_id}/cancel", { path: { check_id } }),
  askModelCheck: (wanted: schemas.ModelCheckIn) => ask("post", "/v1/model-checks", { body: wanted }),
};

// XMLHttpRequest, because fetch does not report the progress of an upload.
export function upload(file: File, progress: (part: number) => void): Promise<Capture> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/v1/captures?filename=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Authorization", `Bearer ${token.get()}`);
    request.setRequestHeader("Content-Type", "application/vnd.tcpdump.pcap");
    request.upload.onprogress = (e) => progress(e.lengthComputable ? e.loaded / e.total : 0);
    request.onerror = () => reject(new Error("the connection broke; the upload was discarded"));
    request.onload = () => {
      const body = JSON.parse(request.responseText || "{}");
      if (request.status === 202) resolve(body);
      else reject(new Refused(request.status, body.detail ?? request.statusText));
    };
    request.send(file);
  });
}
