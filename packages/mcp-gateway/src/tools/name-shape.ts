import { GatewayError } from '../errors.ts'
import type { NameSettings } from '../options.ts'

/** How names of tools are made. */
export interface NameShape {
  readonly pattern: string
  /** What a name may have at most, in characters. */
  readonly budget: number
  readonly splitCamelCase: boolean
}

/** Less does not hold a part of a name and its suffix. */
const MIN_BUDGET = 16
/** Specification 2026-07-28, "Tool Names". */
const MAX_LENGTH = 128

/** @throws GatewayError `CONFIG` */
export function nameShapeFrom({
  pattern,
  maxLength,
  reserve,
  splitCamelCase,
}: NameSettings): NameShape {
  if (!/\{(?:agent|skill)\}/.test(pattern)) {
    throw bad('pattern', 'it holds neither {agent} nor {skill}, so all names would be the same')
  }
  const unknown = /\{(?!agent\}|skill\})[^}]*\}/.exec(pattern)
  if (unknown !== null) throw bad('pattern', `${unknown[0]} is neither {agent} nor {skill}`)
  if (!Number.isInteger(maxLength) || maxLength > MAX_LENGTH) {
    throw bad('maxLength', `it is no whole number up to ${MAX_LENGTH}, which is what MCP allows`)
  }
  if (!Number.isInteger(reserve) || reserve < 0 || maxLength - reserve < MIN_BUDGET) {
    throw bad('reserve', `it leaves less than ${MIN_BUDGET} characters of maxLength for names`)
  }
  return { pattern, budget: maxLength - reserve, splitCamelCase }
}

function bad(option: string, why: string): GatewayError {
  const path = `tools.names.${option}`
  return new GatewayError('CONFIG', `${path}: ${why}`, { path })
}
