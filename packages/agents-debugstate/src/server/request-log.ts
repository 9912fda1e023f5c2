import { hash } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import type { MiddlewareHandler } from 'hono'
import type { NamedResource } from './address.ts'
import type { DebugStateLogger } from './debug-state-logger.ts'

/** What a handler tells of the request it answers. */
export interface RequestVariables {
  named: NamedResource | undefined
}

/** One line for each request that was answered, whatever the answer was. */
export function requestLog(
  logger: DebugStateLogger,
): MiddlewareHandler<{ Variables: RequestVariables }> {
  return async function logRequest(context, next) {
    const start = performance.now()
    await next()
    const named = context.get('named')
    const fields = {
      method: context.req.method,
      ...(named === undefined ? {} : fieldsOf(named)),
      status: context.res.status,
      ms: Math.round((performance.now() - start) * 100) / 100,
    }
    const isProbe = named === undefined && context.res.status === 200
    logger[isProbe ? 'debug' : 'info'](fields, 'request')
  }
}

/** The digest of a key that stands in the log in its place. */
export function keyDigest(key: string): string {
  return `sha256:${hash('sha256', key, 'hex').slice(0, 12)}`
}

function fieldsOf({ agentId, key }: NamedResource): Readonly<Record<string, unknown>> {
  return { agentId, ...(key === undefined ? {} : { key: keyDigest(key) }) }
}
