// The REST API as the page uses it. The token stays in this browser and never stands in an address.
export interface Capture {
  id: string;
  filename: string;
  bytes: number;
  tags: Record<string, string>;
  state: "queued" | "running" | "done" | "failed";
  stage: string;
  progress: number;
  error: string | null;
  created_at: string;
  connections: number | null;
  summary: Summary | null;
  fairness?: Fairness[];
}

export interface Summary {
  packets: number;
  tcp_packets: number;
  duration_s: number;
  link_types: string[];
  vantage: string;
  quality?: Quality; // captures analysed before it was judged have none
  bottlenecks?: Bottlenecks; // captures analysed before flows were compared have none
}

/** How bottlenecks were found, and of how many flows it is not known which one they cross. */
export interface Bottlenecks {
  method: string;
  undecided: number;
  not_judged: number;
}

export type Verdict = "good" | "limited" | "poor";

export interface Quality {
  verdict: Verdict;
  findings: {
    what: string;
    count: number;
    since_s: number | null;
    packet: number | null;
    unreliable: string[];
    meaning: string;
  }[];
}

export interface Fairness {
  bottleneck: string;
  method: string;
  connections: number[];
  kinds: string[];
  goodput_bps: number[];
  jain: number;
  mptcp_to_tcp_ratio: number | null;
  declared: boolean;
  verdict: Verdict;
}

export interface Connection {
  id: string;
  capture_id: string;
  number: number;
  kind: string;
  version: number | null;
  token: string | null;
  bytes: number;
  goodput_bps: number | null;
  completion_s: number | null;
  retransmitted_packets: number;
  first_ns: number;
  rows: number;
  subflow_count: number;
  quality: string[];
  verdict: Verdict;
  unreliable: string[];
}

export interface Subflow {
  number: number;
  src: string;
  sport: number;
  dst: string;
  dport: number;
  bytes: number;
  packets: number;
  retransmitted_packets: number;
  spurious_retransmissions: number;
  rtt_min_us: number | null;
  rtt_median_us: number | null;
  rtt_p95_us: number | null;
  goodput_bps: number | null;
  ece_acks: number;
  timeouts: number;
  fast_retransmits: number;
  vantage: string;
  sender_algorithm: string;
  sender_match: number | null;
  quality: string[];
  verdict: Verdict;
  unreliable: string[];
}

export interface Replay {
  id: string;
  label: string;
  algorithm: string;
  state: Capture["state"];
  error: string | null;
  windows: { subflow: number; mean: number; max: number; last: number }[] | null;
}

export interface Conformance {
  steps: number;
  violations: number;
  first: { algorithm: string; property: string; step: string; path: number; row: number; time_ns: number } | null;
}

export interface ConnectionDetail extends Connection {
  conformance: Conformance | null; // analysed before steps were checked: none
  capture_filename: string;
  subflows: Subflow[];
  replays: Replay[];
}

export interface Series {
  first_ns: string;
  last_ns: string;
  lines: {
    subflow: number;
    algorithm: string;
    rows: number;
    time_ns: number[];
    cwnd: number[];
    ssthresh: (number | null)[];
  }[];
  marks: { subflow: number; kind: string; count: number; time_ns: number[] }[];
}

export interface Algorithm {
  name: string;
  kind: string;
  formula: string;
  source: string;
  options: { name: string; default: string; values: string; reason: string }[];
}

export interface Constant {
  min: number;
  max: number;
  meaning: string;
}

export interface Configuration {
  name: string;
  shows: string | null;
  suite: string;
  flags: string[];
  properties: string[];
  constants: Record<string, number>;
  pinned: { violates: string | null; distinct: number; depth: number | null; states: number | null };
  last: { id: string; verdict: CheckVerdict; violated: string | null; constants: Record<string, number>; as_pinned: boolean | null } | null;
}

export interface Spec {
  name: string;
  title: string;
  windows: string | null;
  constants: Record<string, Constant>;
  configurations: Configuration[];
  controllers: string[]; // whose steps on a connection can be held against it
}

export type CheckVerdict = "holds" | "violated" | "conforms" | "does_not_conform" | "failed" | "cancelled";

export interface ModelCheck {
  id: string;
  spec: string;
  configuration: string | null; // a connection's steps have none
  constants: Record<string, number>;
  algorithm: string | null; // whose steps on which connection
  connection: string | null;
  connection_number: number | null;
  capture_filename: string | null;
  events: number | null;
  followed: number | null;
  pieces: number | null;
  pieces_followed: number | null;
  seconds_max: number;
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  verdict: CheckVerdict | null;
  violated: string | null;
  as_pinned: boolean | null;
  error: string | null;
  created_at: string;
  generated: number | null;
  distinct: number | null;
  queued: number | null;
  depth: number | null;
  seconds: number | null;
}

export interface Step {
  number: number;
  action: string;
  state: Record<string, unknown>;
  back_to: number | null;
}

/** Windows in segments. */
export interface ControllerState {
  initial_slow_start: boolean;
  alpha: number;
  subflows: { path: number; cwnd: number; ssthresh: number | null; coupled: boolean; rtt_s: number | null }[];
}

/** A state that the specification allows: windows and alpha as intervals. */
export interface Allowed {
  initial_slow_start: boolean;
  alpha: [number, number];
  subflows: { path: number; cwnd: [number, number]; ssthresh: [number, number] | null; coupled: boolean }[];
}

/** Of a detector of shared bottlenecks. asked_by: whose echo a decision waits on; seen: by that decision. */
export interface DetectorState {
  subflows: { path: number; set: number; state: string; asked_by: number | null; seen: number[]; srtt_s?: number | null }[];
  sets: { set: number; asked_by: number | null; seen: number[] }[];
}

export interface StepRefused {
  event: number;
  row: number;
  step: string;
  path: number;
  acked_segments: number;
  before: ControllerState | DetectorState | null;
  expected: (Allowed | DetectorState)[];
  found: ControllerState | DetectorState;
  why: string;
}

export interface ModelCheckDetail extends ModelCheck {
  first_violation: StepRefused | null;
  coverage: { action: string; place: string; taken: number }[] | null;
  counterexample: Step[] | null;
  counterexample_states: number | null;
  windows: string | null;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

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

async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  const headers = { Authorization: `Bearer ${token.get()}`, ...init.headers };
  const response = await fetch(path, { ...init, headers });
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? (undefined as T) : response.json();
}

export const api = {
  team: () => ask<{ id: string; name: string }>("/v1/teams/me"),
  captures: (cursor?: string) => ask<Page<Capture>>(`/v1/captures${cursor ? `?cursor=${cursor}` : ""}`),
  capture: (id: string) => ask<Capture>(`/v1/captures/${id}`),
  remove: (id: string) => ask<void>(`/v1/captures/${id}`, { method: "DELETE" }),
  connections: (id: string, cursor?: string) =>
    ask<Page<Connection>>(`/v1/captures/${id}/connections?limit=100${cursor ? `&cursor=${cursor}` : ""}`),
  connection: (id: string) => ask<ConnectionDetail>(`/v1/connections/${id}`),
  series: (id: string, query: URLSearchParams) => ask<Series>(`/v1/connections/${id}/series?${query}`),
  algorithms: () => ask<{ algorithms: Algorithm[] }>("/v1/algorithms"),
  replay: (id: string, algorithm: string, options: Record<string, string>) =>
    ask<Replay>(`/v1/connections/${id}/replays`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ algorithm, options }),
    }),
  specs: () => ask<{ specs: Spec[] }>("/v1/specs"),
  modelChecks: (cursor?: string) => ask<Page<ModelCheck>>(`/v1/model-checks?limit=20${cursor ? `&cursor=${cursor}` : ""}`),
  checksOf: (connection: string) => ask<Page<ModelCheck>>(`/v1/model-checks?limit=50&connection=${connection}`),
  modelCheck: (id: string) => ask<ModelCheckDetail>(`/v1/model-checks/${id}`),
  cancelModelCheck: (id: string) => ask<ModelCheckDetail>(`/v1/model-checks/${id}/cancel`, { method: "POST" }),
  askModelCheck: (
    wanted:
      | { spec: string; configuration: string; constants: Record<string, number>; seconds_max: number }
      | { connection: string; algorithm: string },
  ) =>
    ask<ModelCheck>("/v1/model-checks", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(wanted),
    }),
};

// XMLHttpRequest, because fetch cannot tell how much of an upload has gone.
export function upload(file: File, progress: (part: number) => void): Promise<Capture> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/v1/captures?filename=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Authorization", `Bearer ${token.get()}`);
    request.setRequestHeader("Content-Type", "application/vnd.tcpdump.pcap");
    request.upload.onprogress = (e) => progress(e.lengthComputable ? e.loaded / e.total : 0);
    request.onerror = () => reject(new Error("the connection broke; nothing was kept"));
    request.onload = () => {
      const body = JSON.parse(request.responseText || "{}");
      if (request.status === 202) resolve(body);
      else reject(new Refused(request.status, body.detail ?? request.statusText));
    };
    request.send(file);
  });
}
