import { documentRoute, type HttpRoute } from '../http/router.ts'

/** Conditions for accepting calls. */
export interface Readiness {
  /** Must not reject. */
  readonly isStoreReady: () => Promise<boolean>
  /** True after the gateway has waited for its first agents. */
  readonly isListable: () => boolean
  readonly isDraining: () => boolean
}

/** Answers 200 while the process lives. */
export const HEALTH_PATH = '/healthz'
/** Answers 200 while calls may come, else 503. */
export const READY_PATH = '/readyz'

type HealthReason = 'draining' | 'store' | 'agents'

/**
 * Answers `GET` of two paths for orchestrators, which address the gateway by its IP address: `200 {"status":"ok"}`, or
 * 503 with the reasons for which the gateway takes no calls now.
 */
export function healthRoutes(readiness: Readiness): readonly HttpRoute[] {
  return [
    routeOf(HEALTH_PATH, async () => []),
    routeOf(READY_PATH, () => reasonsAgainst(readiness)),
  ]
}

/** Returns the reasons for which the gateway takes no calls now. Never rejects. */
async function reasonsAgainst(readiness: Readiness): Promise<readonly HealthReason[]> {
  const { isStoreReady, isListable, isDraining } = readiness
  if (isDraining()) return ['draining']
  const isReady = await isStoreReady()
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
