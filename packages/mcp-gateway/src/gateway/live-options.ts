import type { AgentRegistryOptions } from '../tools/agent-registry-options.ts'
import type { GatewayToolOptions, LimitOptions, RunOptions, StreamingOptions } from '../options.ts'
import type { SessionLimits } from '../mcp/sessions/session-limits.ts'

/**
 * What may change while a gateway runs. A section that is given takes the place of the whole section before, and
 * what it leaves out has its default; a section that is not given stays. All else needs a new gateway: it was
 * announced to clients, or holds something open.
 */
export interface LiveOptions {
  /** Of these, what is left out stays. */
  readonly registry?: Pick<AgentRegistryOptions, 'ttlMs' | 'checkMs'> | undefined
  /** Filters, names, overrides: a new plan, of which clients are told where it says something else. */
  readonly tools?: Omit<GatewayToolOptions, 'listTtlMs' | 'pageSize' | 'prompts'> | undefined
  /** For runs that begin. */
  readonly runs?:
    | Omit<
        RunOptions,
        'mode' | 'threadTtlMs' | 'needsInputTtlMs' | 'questionTimeoutMs' | 'repeatTtlMs' | 'sweepMs'
      >
    | undefined
  /** For runs that begin. */
  readonly streaming?: Omit<StreamingOptions, 'channel'> | undefined
  readonly limits?:
    | Omit<
        LimitOptions,
        | 'subscriptions'
        | 'subscriptionsPerPrincipal'
        | 'subscriptionsPerAddress'
        | 'unreadBytes'
        | 'unreadBytesPerConnection'
      >
    | undefined
  /** Ends hold for sessions that are open, too; what concerns streams for those that begin. */
  readonly sessions?: SessionLimits | undefined
}
