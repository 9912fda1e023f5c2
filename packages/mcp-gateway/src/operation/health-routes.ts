import type { Clock } from '../clock.ts'
import type { HttpRoute } from '../http/http-route.ts'

export interface HealthOptions {
  /** Whether the process answers at all. @default '/healthz' */
  readonly path?: string | undefined
  /** Whether calls may come. @default '/readyz' */
  readonly readyPath?: string | undefined
}

/** What has to be so before calls may come. */
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
export function healthRoutes(options: HealthOptions, readiness: Readiness): readonly HttpRoute[] {
  const { path = '/healthz', readyPath = '/readyz' } = options
  return [routeOf(path, async () => []), routeOf(readyPath, () => reasonsAgainst(readiness))]
}

/** Why no calls should come now; empty: they may. Never rejects, and takes 2 s at most. */
export async function reasonsAgainst(readiness: Readiness): Promise<readonly HealthReason[]> {
  const { isStoreReady, isListable, isDraining, clock } = readiness
  if (isDraining()) return ['draining']
  let undo: (() => void) | undefined
  const late = new Promise<false>((resolve) => {
    undo = clock.after(STORE_MS, () => resolve(false))
  })
  const isReady = await Promise.race([isStoreReady().catch(() => false), late])
  undo?.()
  return [...(isReady ? [] : (['store'] as const)), ...(isListable() ? [] : (['agents'] as const))]
}

function routeOf(path: string, reasons: () => Promise<readonly HealthReason[]>): HttpRoute {
  return {
    isOpen: true,
    matches: (asked) => asked === path,
    handle: async ({ request: { method } }) => {
      if (method !== 'GET' && method !== 'HEAD') {
        return new Response(null, { status: 405, headers: { allow: 'GET, HEAD' } })
      }
      const found = await reasons()
      const body = found.length === 0 ? { status: 'ok' } : { status: 'unavailable', reasons: found }
      const init = {
        status: found.length === 0 ? 200 : 503,
        headers: { 'cache-control': 'no-store', 'content-type': 'application/json' },
      }
      return new Response(method === 'HEAD' ? null : JSON.stringify(body), init)
    },
  }
}
