// The measures of the team's page: how they are called, written and judged.
import { ms, percent, seconds, si } from "./format";

export interface Measure {
  name: string;
  words: string;
  meaning: string;
  shown: (value: number) => string;
  // A median up to the first is good and above the second poor, or the other way round; null: compared with the median of all.
  thresholds: [number, number] | null;
  lessIsBetter: boolean;
}

const ratio = (v: number) => v.toFixed(v < 10 ? 2 : 1);

export const MEASURES: Measure[] = [
  { name: "jain", words: "fairness", meaning: "Jain's index of connections that share a bottleneck: 1 when all got the same goodput", shown: ratio, thresholds: [0.95, 0.85], lessIsBetter: false },
  { name: "retransmission_rate", words: "retransmission rate", meaning: "part of the data packets that were sent again", shown: (v) => percent(v), thresholds: [0.01, 0.03], lessIsBetter: true },
  { name: "rtt_inflation", words: "RTT inflation", meaning: "median RTT over the smallest: how much queues add", shown: (v) => `${ratio(v)}×`, thresholds: [1.5, 2.5], lessIsBetter: true },
  { name: "completion_short_s", words: "completion of short flows", meaning: "time that connections with less than 1 MB of data took", shown: (v) => seconds(v), thresholds: null, lessIsBetter: true },
  { name: "completion_long_s", words: "completion of long flows", meaning: "time that connections with 1 MB of data or more took", shown: (v) => seconds(v), thresholds: null, lessIsBetter: true },
  { name: "goodput_bps", words: "goodput", meaning: "bytes of data over the time that they took", shown: (v) => si(v, "bit/s"), thresholds: null, lessIsBetter: false },
  { name: "rtt_us", words: "RTT", meaning: "median round-trip time", shown: (v) => ms(v), thresholds: null, lessIsBetter: true },
  { name: "mptcp_to_tcp_ratio", words: "MPTCP / TCP", meaning: "mean goodput of MPTCP over that of TCP at a shared bottleneck", shown: ratio, thresholds: null, lessIsBetter: false },
];

// What the page draws over time.
export const TRENDS = ["jain", "retransmission_rate", "rtt_inflation", "completion_short_s", "completion_long_s", "goodput_bps"];

export const measure = (name: string | null): Measure => MEASURES.find((m) => m.name === name) ?? (MEASURES[1] as Measure);

export type Judgement = "good" | "limited" | "poor";

// The limits of a measure: its own, or 1.25 and 2 times away from the median of all.
export function limitsOf(m: Measure, all: number | null): [number, number] | null {
  if (m.thresholds) return m.thresholds;
  if (all === null) return null;
  return m.lessIsBetter ? [all * 1.25, all * 2] : [all / 1.25, all / 2];
}

export function judged(m: Measure, limits: [number, number] | null, value: number): Judgement | undefined {
  if (!limits) return undefined;
  const [good, poor] = limits;
  if (m.lessIsBetter) return value <= good ? "good" : value <= poor ? "limited" : "poor";
  return value >= good ? "good" : value >= poor ? "limited" : "poor";
}

export const limitsInWords = (m: Measure, [good, poor]: [number, number]) =>
  m.lessIsBetter
    ? `good: up to ${m.shown(good)}; poor: above ${m.shown(poor)}`
    : `good: ${m.shown(good)} and more; poor: below ${m.shown(poor)}`;
