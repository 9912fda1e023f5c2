import type { SessionSettings } from '../../options.ts'

/** Limits of sessions. */
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

export function effectiveLimits({
  eventStore,
  ...limits
}: SessionSettings): EffectiveSessionLimits {
  const { enabled, maxEventsPerStream: maxEvents, ttlMs } = eventStore
  return { ...limits, events: enabled ? { maxEvents, ttlMs } : undefined }
}
