// Configurations and their values as they may be shown: without secrets.
import { isRecord } from '@x/internal'
import type { z } from 'zod'

import { redacted } from '../internal/redacted.ts'
import {
  isSecret,
  pathText,
  type SettingPath,
  type SettingProblem,
} from '../gateway/setting-paths.ts'

const MASK = '[masked]'

/** Returns a copy that may be shown: secrets are masked, also passwords in URLs. Settings without a value are left out. */
export function maskedConfig(value: unknown, schema: z.ZodType, path: SettingPath = []): unknown {
  if (value === null || value === undefined) return value
  if (Array.isArray(value))
    return value.map((each, index) => maskedConfig(each, schema, [...path, index]))
  if (isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, maskedConfig(each, schema, [...path, key])]),
    )
  }
  if (isSecret(schema, path)) return MASK
  return typeof value === 'string' && value.includes('://') ? redactedUrl(value) : value
}

/** A password may hold characters that end a host, such as `/` and `@`: all text up to the last `@` is masked. */
function redactedUrl(text: string): string {
  const url = /^https?:/i.test(text) && URL.canParse(text) ? new URL(text) : undefined
  if (url?.username === '' && url.password === '') return redacted(text)
  return redacted(text.replace(/^([a-z][a-z0-9+.-]*:\/\/).*@/is, '$1[redacted]@'))
}

const MAX_SHOWN = 60

/** A problem as a sentence about a configuration. Shows the wrong value, unless it is secret. */
export function problemText(
  { path, type, expected, nearest, found }: SettingProblem,
  schema: z.ZodType,
): string {
  const place = path.length === 0 ? 'The configuration' : pathText(path)
  if (type === 'missing') return `${place} is missing; expected ${expected}`
  if (type === 'wrong') return `${place} is ${shown(found, schema, path)}; expected ${expected}`
  const advice =
    nearest === undefined
      ? `known here: ${expected}`
      : `did you mean ${pathText([...path.slice(0, -1), nearest])}?`
  return `${place} is no known key: ${advice}`
}

function shown(value: unknown, schema: z.ZodType, path: SettingPath): string {
  if (isSecret(schema, path)) return MASK
  if (Array.isArray(value)) return 'a list'
  if (isRecord(value)) return 'a section'
  const text =
    typeof value === 'string'
      ? JSON.stringify(redactedUrl(value))
      : redacted(JSON.stringify(value) ?? String(value))
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text
}
