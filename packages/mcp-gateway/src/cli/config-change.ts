import { isDeepStrictEqual } from 'node:util'

import { isRecord } from '@x/internal'
import { pathText, type ConfigPath } from './config-path.ts'
import type { GatewayConfig } from './gateway-config.ts'

export interface ConfigChange {
  /** What holds with the change: all that is new and takes effect, and for the rest what was. */
  readonly config: GatewayConfig
  /** Places that are different now and take effect. */
  readonly live: readonly string[]
  /** Places that are different now, and need a new start. */
  readonly waiting: readonly string[]
}

export function configChange(before: GatewayConfig, after: GatewayConfig): ConfigChange {
  const config = withLive(before, after)
  return {
    config,
    live: differences(before, config, []).map(pathText),
    waiting: differences(config, after, []).map(pathText),
  }
}

/** What takes effect while a gateway runs: all but what clients were told at the start, and what holds something open. */
function withLive(before: GatewayConfig, after: GatewayConfig): GatewayConfig {
  const { agents, tools, runs, streaming, limits, sessions, log } = after
  const { sources, ttlMs, checkMs } = agents
  const { prompts, listTtlMs, pageSize } = before.tools
  const { mode, threadTtlMs, needsInputTtlMs, questionTimeoutMs } = before.runs
  const { requestsPerMinutePerPrincipal, requestsPerMinutePerIp, argumentBytes } = limits
  const { wrongTokensPerMinutePerIp } = limits
  return {
    ...before,
    agents: { ...before.agents, sources, ttlMs, checkMs },
    tools: { ...tools, prompts, listTtlMs, pageSize },
    runs: { ...runs, mode, threadTtlMs, needsInputTtlMs, questionTimeoutMs },
    streaming: { ...streaming, channel: before.streaming.channel },
    limits: {
      ...before.limits,
      requestsPerMinutePerPrincipal,
      requestsPerMinutePerIp,
      wrongTokensPerMinutePerIp,
      argumentBytes,
    },
    sessions,
    log: { ...before.log, level: log.level },
  }
}

function differences(before: unknown, after: unknown, path: ConfigPath): readonly ConfigPath[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isRecord(before) || !isRecord(after)) return [path]
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].flatMap((key) => differences(before[key], after[key], [...path, key]))
}
