/** How many sessions there may be, and for how long. Times are milliseconds. */
export interface SessionLimits {
  /** How long a session lives without a request, a call or a stream. @default 1_800_000 */
  readonly idleTtlMs?: number | undefined
  /** How long a session lives in any case: then new requests are refused, and what is under way may end. @default 43_200_000 */
  readonly absoluteTtlMs?: number | undefined
  /** How many sessions may be open; a handshake beyond that is refused. @default 10_000 */
  readonly max?: number | undefined
  /** How many of them one verified caller may have. @default 100 */
  readonly maxPerPrincipal?: number | undefined
  /** Handshakes from one address; where addresses are not known, there is no such limit. @default 60 */
  readonly initializePerMinutePerIp?: number | undefined
  /** How long a lost stream waits for its client to come back, before its call is cancelled. @default 10_000 */
  readonly disconnectGraceMs?: number | undefined
  /** How long a client is told to wait before it comes back to a stream. @default 1000 */
  readonly retryMs?: number | undefined
  /** What is kept of streams, for clients that come back with `Last-Event-ID`. */
  readonly eventStore?: EventStoreLimits | undefined
}

export interface EventStoreLimits {
  /** `false`: nothing is kept, and a call whose stream is lost is cancelled. @default true */
  readonly enabled?: boolean | undefined
  /** Older ones go. @default 1000 */
  readonly maxEventsPerStream?: number | undefined
  /** How long the events of a stream are kept after the last one. @default 300_000 */
  readonly ttlMs?: number | undefined
}

/** Every limit, as it holds. */
export interface EffectiveSessionLimits {
  readonly idleTtlMs: number
  readonly absoluteTtlMs: number
  readonly max: number
  readonly maxPerPrincipal: number
  readonly initializePerMinutePerIp: number
  readonly disconnectGraceMs: number
  readonly retryMs: number
  /** `undefined`: streams cannot be taken up again. */
  readonly events: { readonly maxEvents: number; readonly ttlMs: number } | undefined
}

export function effectiveLimits(limits: SessionLimits = {}): EffectiveSessionLimits {
  const { enabled = true, maxEventsPerStream = 1000, ttlMs = 300_000 } = limits.eventStore ?? {}
  return {
    idleTtlMs: limits.idleTtlMs ?? 1_800_000,
    absoluteTtlMs: limits.absoluteTtlMs ?? 43_200_000,
    max: limits.max ?? 10_000,
    maxPerPrincipal: limits.maxPerPrincipal ?? 100,
    initializePerMinutePerIp: limits.initializePerMinutePerIp ?? 60,
    disconnectGraceMs: limits.disconnectGraceMs ?? 10_000,
    retryMs: limits.retryMs ?? 1000,
    events: enabled ? { maxEvents: maxEventsPerStream, ttlMs } : undefined,
  }
}
