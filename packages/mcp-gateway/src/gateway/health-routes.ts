import { documentRoute, type Document, type HttpRoute } from '../http/router.ts'

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

/**
 * Answers `GET` of two paths for orchestrators, which address the gateway by its IP address: `200 {"status":"ok"}`, or
 * 503 with the reasons for which the gateway takes no calls now.
 */
export function healthRoutes(readiness: Readiness): readonly HttpRoute[] {
  const { isStoreReady, isListable, isDraining } = readiness
  return [
    documentRoute(HEALTH_PATH, async () => healthDocument([])),
    documentRoute(READY_PATH, async () => {
      if (isDraining()) return healthDocument(['draining'])
      const isReady = await isStoreReady()
      return healthDocument([...(isReady ? [] : ['store']), ...(isListable() ? [] : ['agents'])])
    }),
  ]
}

function healthDocument(reasons: readonly string[]): Document {
  const isOk = reasons.length === 0
  const text = JSON.stringify(isOk ? { status: 'ok' } : { status: 'unavailable', reasons })
  return { status: isOk ? 200 : 503, mimeType: 'application/json', text }
}
