// Progress by events of the server, without asking again and again.

export interface Progress {
  state: "queued" | "running" | "done" | "failed";
  stage: string;
  progress: number;
  error: string | null;
}

// A browser opens six connections to a server. Streams leave some of them to requests.
const STREAMS_MAX = 3;

// Tells each change of the progress at `/v1/<path>/events`, until it is done or failed; the browser connects again after a
// break. gone: the server has no such object any more. Returns what ends the stream before.
export function followProgress(path: string, told: (progress: Progress) => void, gone: () => void): () => void {
  const source = new EventSource(`/v1/${path}/events`);
  source.addEventListener("progress", (event) => {
    const progress = JSON.parse(event.data) as Progress;
    if (progress.state === "done" || progress.state === "failed") source.close();
    told(progress);
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) gone();
  };
  return () => source.close();
}

// Follows the first few of several objects of one kind, and the next ones when these have ended.
export class Followed {
  private streams = new Map<string, () => void>();

  // told: of each change. ended: it is done, failed or gone.
  constructor(
    private kind: string,
    private told: (id: string, progress: Progress) => void,
    private ended: (id: string) => void,
  ) {}

  // ids: of all that wait or run, those first that will run first.
  follow(ids: string[]) {
    const wanted = ids.slice(0, STREAMS_MAX);
    for (const [id, stop] of this.streams) {
      if (wanted.includes(id)) continue;
      stop();
      this.streams.delete(id);
    }
    for (const id of wanted) {
      if (this.streams.has(id)) continue;
      const left = () => {
        this.streams.delete(id);
        this.ended(id);
      };
      const told = (p: Progress) => (p.state === "done" || p.state === "failed" ? left() : this.told(id, p));
      this.streams.set(id, followProgress(`${this.kind}/${id}`, told, left));
    }
  }

  stop() {
    this.follow([]);
  }
}
