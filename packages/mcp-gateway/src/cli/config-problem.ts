import { isRecord, nearestWord } from '@x/internal'
import type { z } from 'zod'

import { redacted } from '../internal/redacted.ts'
import { pathText, type ConfigPath } from './config-path.ts'
import { knownKeys } from './config-shape.ts'
import { isSecret, redactedUrl } from './masked-config.ts'

/** One thing that is wrong with a configuration. */
export interface ConfigProblem {
  readonly path: ConfigPath
  /** A sentence that names the place, what is there (unless it is secret), and what is expected. */
  readonly text: string
}

/** What the schema complains of, in words. */
export function problemsFrom(issue: z.core.$ZodIssue, value: unknown): readonly ConfigProblem[] {
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)))
  if (issue.code !== 'unrecognized_keys') return [badValue(path, value, issue.message)]
  return issue.keys.map((key) => unknownKey(path, key))
}

function unknownKey(path: ConfigPath, key: string): ConfigProblem {
  const known = knownKeys(path)
  const nearest = nearestWord(key, known)
  const advice =
    nearest === undefined
      ? `known here: ${known.join(', ')}`
      : `did you mean ${pathText([...path, nearest])}?`
  const own = [...path, key]
  return { path: own, text: `${pathText(own)} is no known key: ${advice}` }
}

function badValue(path: ConfigPath, value: unknown, expected: string): ConfigProblem {
  const found = valueAt(value, path)
  const place = path.length === 0 ? 'The configuration' : pathText(path)
  const what = found === undefined ? 'is missing' : `is ${shown(found, path)}`
  return { path, text: `${place} ${what}; expected ${expected}` }
}

const MAX_SHOWN = 60

function shown(value: unknown, path: ConfigPath): string {
  if (isSecret(path)) return '[masked]'
  if (Array.isArray(value)) return 'a list'
  if (isRecord(value)) return 'a section'
  const text =
    typeof value === 'string'
      ? JSON.stringify(redactedUrl(value))
      : redacted(JSON.stringify(value) ?? String(value))
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text
}

function valueAt(value: unknown, path: ConfigPath): unknown {
  return path.reduce<unknown>((within, part) => {
    if (Array.isArray(within)) return within[Number(part)]
    return isRecord(within) && Object.hasOwn(within, part) ? within[part] : undefined
  }, value)
}
