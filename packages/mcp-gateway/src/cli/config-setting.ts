import { isRecord } from '@x/internal'
import type { ConfigPath } from './config-path.ts'
import { kindAt } from './config-shape.ts'
import { valueFromText } from './typed-text.ts'

/** One value from outside of the file. */
export interface ConfigSetting {
  readonly path: ConfigPath
  readonly text: string
  /** Where it comes from, for people: `--port`, `MCP_GATEWAY_HTTP_PORT`. */
  readonly from: string
}

/** A copy with the settings in it; of two for one place, the later one counts. */
export function withSettings(value: unknown, settings: readonly ConfigSetting[]): unknown {
  return settings.reduce(
    (left, { path, text }) => withValue(left, path, valueFromText(text, kindAt(path))),
    value,
  )
}

function withValue(within: unknown, path: ConfigPath, value: unknown): unknown {
  const [key, ...rest] = path
  if (key === undefined) return value
  const record = within ?? {}
  if (!isRecord(record)) return within // refused as what it is
  return { ...record, [key]: withValue(record[key], rest, value) }
}
