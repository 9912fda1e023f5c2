import type { HealthSettings } from '../options.ts'
import type { Clock } from '../internal/clock.ts'
import { inTime } from '../internal/deadline.ts'
import { documentRoute, type HttpRoute } from '../http/router.ts'

/** Conditions for accepting calls. */
export interface Readiness {
  /** Never throws. */
  readonly isStoreReady: () => Promise<boolean>
  /** First agents have been waited for. */
  readonly isListable: () => boolean
  readonly isDraining: () => boolean
  readonly clock: Clock
}

export type HealthReason = 'draining' | 'store' | 'agents'

/** A probe that gets no answer counts as a failed one soon after this. */
const STORE_MS = 2000

/**
 * `GET` of two paths, for orchestrators, who know no name of the gateway: `200 {"status":"ok"}`, or 503 with the
 * reasons for which no calls should come now.
 */
export function healthRoutes(
  { path, readyPath }: HealthSettings,
  readiness: Readiness,
): readonly HttpRoute[] {
  return [routeOf(path, async () => []), routeOf(readyPath, () => reasonsAgainst(readiness))]
}

/** Why no calls should come now; empty: they may. Never rejects, and takes 2 s at most. */
export async function reasonsAgainst(readiness: Readiness): Promise<readonly HealthReason[]> {
  const { isStoreReady, isListable, isDraining, clock } = readiness
  if (isDraining()) return ['draining']
  const asked = isStoreReady().catch(() => false)
  const isReady = await inTime(asked, { clock, ms: STORE_MS, late: () => false })
  return [...(isReady ? [] : (['store'] as const)), ...(isListable() ? [] : (['agents'] as const))]
}

function routeOf(path: string, reasons: () => Promise<readonly HealthReason[]>): HttpRoute {
  return documentRoute(path, async () => {
    const found = await reasons()
    const body = found.length === 0 ? { status: 'ok' } : { status: 'unavailable', reasons: found }
    return {
      status: found.length === 0 ? 200 : 503,
      mimeType: 'application/json',
      text: JSON.stringify(body),
    }
  })
}
