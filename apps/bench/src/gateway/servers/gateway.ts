import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { isObject } from '../../client/checks.ts'
import { nowUs } from '../now-us.ts'
import { BRIEF_MS, GRACE_MS, PATH, TOKEN } from '../protocol.ts'
import { BenchAgent } from './bench-agent.ts'
import type { Served } from './served.ts'
import { ShiftingClock } from './shifting-clock.ts'

const IDLE_TTL_MS = 1_800_000
const MANY = 100_000

export interface GatewayServerOptions {
  readonly tools: number
  /** Its agent answers one turn after it was called. @default false */
  readonly isLater?: boolean | undefined
  /** With neither tokens nor metrics. @default false */
  readonly isOpen?: boolean | undefined
  /** Without streams that can be resumed: what other servers leave out as well. @default false */
  readonly isPlain?: boolean | undefined
  /** Makes one change of several that come soon after each other, as it comes. @default false */
  readonly isDebounced?: boolean | undefined
}

/** The gateway as it comes, with tokens and metrics, and limits that one caller does not reach. */
export async function serveGateway({
  tools,
  isLater = false,
  isOpen,
  isPlain = false,
  isDebounced = false,
}: GatewayServerOptions): Promise<Served> {
  const agent = new BenchAgent(tools, isLater)
  const clock = new ShiftingClock()
  const gateway = createGateway({
    sources: [agent],
    ...(isOpen !== true && { auth: bearerAuth({ bench: { token: TOKEN, scopes: ['*'] } }) }),
    http: { shutdownGraceMs: 0, path: PATH, ...(isOpen !== true && { metricsPath: '/metrics' }) },
    sessions: {
      idleTtlMs: IDLE_TTL_MS,
      max: MANY,
      maxPerPrincipal: MANY,
      initializePerMinutePerIp: 10 * MANY,
      disconnectGraceMs: GRACE_MS,
      eventStore: { enabled: !isPlain },
    },
    tools: { overrides: { 'bench/brief': { timeoutMs: BRIEF_MS } } },
    ...(!isDebounced && { registry: { debounceMs: 0 } }),
    runs: { maxConcurrent: MANY, maxConcurrentPerPrincipal: MANY },
    limits: {
      requestsPerMinutePerPrincipal: 10_000 * MANY,
      subscriptions: MANY,
      subscriptionsPerPrincipal: MANY,
    },
    clock,
  })
  const { port } = await gateway.listen({ port: 0 })
  async function perform(what: string, task: unknown): Promise<unknown> {
    switch (what) {
      case 'change':
        return agent.change(isObject(task) && task['isMore'] === true)
      case 'join':
        return agent.join(isObject(task) ? Number(task['times']) : Number.NaN)
      case 'tools':
        return gateway.registry.plan().tools.length
      case 'times':
        return agent.takeTimes()
      case 'active':
        return agent.active
      case 'sessions':
        return sessionsOf(port)
      case 'expire':
        return clock.forward(IDLE_TTL_MS)
      case 'stop': {
        const at = nowUs()
        await gateway.close()
        return at
      }
      default:
        throw new TypeError(`A gateway cannot be asked for "${what}"`)
    }
  }
  return { port, perform }
}

/** As the metrics count them. */
async function sessionsOf(port: number): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return Number(/^mcp_gateway_sessions (\d+)$/m.exec(metrics)?.[1] ?? Number.NaN)
}
