// Periods in which a finding makes what the chart shows unreliable.
import type { Capture, ConnectionDetail, Series } from "../api";
import type { Line } from "./lines";

type Part = Line["group"];

// parts: what it makes unreliable of the chart. It holds throughout if it begins with its subflow's first ACK.
export interface Doubt {
  from: number;
  to: number;
  parts: Part[];
  isThroughout: boolean;
  why: string;
}

// The findings about subflows (rewindow/findings/quality.py) that concern windows and flight, or round trips; a test compares.
const CONCERNS: Record<string, { parts: Part[]; words: string }> = {
  no_handshake: { parts: ["window"], words: "the flow began before the capture; its window at that time is unknown" },
  one_direction: { parts: ["window", "rtt"], words: "only one direction was captured" },
  truncated_header: { parts: ["window"], words: "the snap length cut headers; options are missing" },
  window_too_large: { parts: ["window"], words: "more unacknowledged segments than the limit, or cut so small that following them exceeds the work allowed" },
  unseen_data: { parts: ["window"], words: "data was acknowledged that is not in the capture" },
  vantage_unknown: { parts: ["window", "rtt"], words: "the capture point is unknown; it was treated as the sender" },
  send_times_coarse: { parts: ["window"], words: "send times are known to a millisecond, and round trips or the gaps between packets are hardly longer" },
  send_times_shifted: { parts: ["window", "rtt"], words: "send times are one constant round trip before the capture; queues on the way do not show" },
  send_times_unknown: { parts: ["window", "rtt"], words: "captured away from the sender, and nothing tells of the sender's clock" },
  not_replayed: { parts: ["window"], words: "no controller was replayed on it" },
  window_exceeded: { parts: ["window"], words: "more was in flight than the window of the algorithm that the sender seems to run, so it ran another window" },
  window_unmatched: { parts: ["window"], words: "the window of the algorithm that the sender seems to run mostly differs from what was in flight" },
  bad_timestamp: { parts: ["window", "rtt"], words: "an impossible time; the time of the record before was used" },
  backward_timestamp: { parts: ["window", "rtt"], words: "records are not in the order of their times" },
  no_timestamp: { parts: ["window", "rtt"], words: "packets have no time of their own" },
  unknown_interface: { parts: ["window"], words: "packets of an interface without a description were skipped" },
  too_many_interfaces: { parts: ["window"], words: "packets of further interfaces were skipped" },
  compressed_ppp: { parts: ["window"], words: "PPP packets with compressed headers, or several in a frame, were skipped" },
  dropped_packets: { parts: ["window"], words: "the capturing system says that it missed packets" },
  bad_length: { parts: ["window"], words: "packets whose lengths contradict each other were skipped" },
  lost_fragment: { parts: ["window"], words: "segments with missing fragments were skipped" },
};

// A window follows from all that came before. What makes it unreliable does so until the subflow's last ACK; so do send times that are
// not known, which concern all of a subflow. strip: the recorded flight of the whole connection, whose first ACK is at 0 seconds. isShown: is this subflow drawn?
export function doubtsOf(connection: ConnectionDetail, capture: Capture | null, strip: Series, isShown: (subflow: number) => boolean): Doubt[] {
  const at = (ns: string | number | bigint) => Number(BigInt(ns) - BigInt(strip.first_ns)) / 1e9;
  const began = capture?.summary?.first_ns;
  // When the capture has a finding first, whichever subflow that concerns: not before.
  const since = (what: string): number | null => {
    const s = capture?.summary?.quality?.findings.find((f) => f.what === what)?.since_s;
    return s === null || s === undefined || began === undefined ? null : at(began) + s;
  };
  return connection.subflows.filter((s) => isShown(s.number)).flatMap((s) => {
    const times = strip.recorded.find((r) => r.subflow === s.number)?.time_ns ?? [];
    const [first, last] = [(times[0] ?? 0) / 1e9, (times[times.length - 1] ?? 0) / 1e9];
    const beside = connection.subflows.length > 1 ? `, subflow ${s.number}` : "";
    return s.quality.flatMap((what) => {
      const concern = CONCERNS[what];
      if (!concern) return [];
      let from = since(what) ?? first;
      if (what === "unseen_data" && s.first_unseen_ns !== null) from = at(s.first_unseen_ns);
      if (what === "dropped_packets") from = first; // the capturing system says it only at the end
      if (from > last) return [];
      from = Math.max(from, first);
      return [{ from, to: last, parts: concern.parts, isThroughout: from === first, why: concern.words + beside }];
    });
  });
}
