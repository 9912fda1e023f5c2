import { isDeepStrictEqual } from 'node:util'

import { isRecord } from '../is-record.ts'
import { pathText, type ConfigPath } from './config-path.ts'
import type { GatewayConfig } from './gateway-config.ts'

/** What takes effect while a gateway runs. */
const LIVE: readonly ConfigPath[] = [
  ['agents', 'sources'],
  ['log', 'level'],
]

export interface ConfigChange {
  /** Places that are different now and take effect. */
  readonly live: readonly string[]
  /** Places that are different now, and need a new start. */
  readonly waiting: readonly string[]
}

export function configChange(before: GatewayConfig, after: GatewayConfig): ConfigChange {
  const paths = differences(before, after, [])
  return {
    live: paths.filter(isLive).map(pathText),
    waiting: paths.filter((path) => !isLive(path)).map(pathText),
  }
}

function isLive(path: ConfigPath): boolean {
  return LIVE.some((live) => live.every((part, index) => part === path[index]))
}

function differences(before: unknown, after: unknown, path: ConfigPath): readonly ConfigPath[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isRecord(before) || !isRecord(after)) return [path]
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].flatMap((key) => differences(before[key], after[key], [...path, key]))
}
