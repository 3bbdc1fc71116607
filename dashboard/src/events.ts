// Tells each event of `/v1/<path>/events`; the browser connects again after a break. gone: the server refuses. Returns what ends
// the stream before. What live.ts tells needs no stream of its own.
export function followEvents<T>(path: string, told: (shown: T) => void, gone: () => void): () => void {
  const source = new EventSource(`/v1/${path}/events`);
  source.addEventListener("progress", (event) => told(JSON.parse(event.data) as T));
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) gone();
  };
  return () => source.close();
}
