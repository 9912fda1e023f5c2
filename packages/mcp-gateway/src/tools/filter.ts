import { GatewayError } from '../errors.ts'
import type { ToolSettings } from '../options.ts'

/** Decides which skills become tools. */
export interface ToolFilter {
  /** Whether a tool with these names is offered: of its agent, of its skill and of the tool. */
  allows(names: readonly string[]): boolean
  /** Patterns that look like regular expressions, but are not valid. */
  readonly warnings: readonly string[]
}

const MAX_PATTERN = 256
/** Names come from agents. Only so many characters are matched. */
const MAX_TESTED = 256

/**
 * Exact patterns decide before regular expressions, and `exclude` before `include`.
 *
 * @throws GatewayError `CONFIG` if a pattern is too long
 */
export function createToolFilter({
  include,
  exclude,
}: Pick<ToolSettings, 'include' | 'exclude'>): ToolFilter {
  const inside = patternsFrom('include', include)
  const outside = patternsFrom('exclude', exclude)
  return {
    warnings: [...inside.warnings, ...outside.warnings],
    allows(names) {
      const tested = names.filter((name) => name !== '').map((name) => name.slice(0, MAX_TESTED))
      const matches = (expression: RegExp): boolean => tested.some((name) => expression.test(name))
      if (names.some((name) => outside.texts.has(name))) return false
      if (names.some((name) => inside.texts.has(name))) return true
      if (outside.expressions.some(matches)) return false
      return include.length === 0 || inside.expressions.some(matches)
    },
  }
}

function patternsFrom(option: string, patterns: readonly string[]) {
  const texts = new Set<string>()
  const expressions: RegExp[] = []
  const warnings: string[] = []
  for (const [index, pattern] of patterns.entries()) {
    const path = `tools.${option}[${index}]`
    if (pattern.length > MAX_PATTERN) {
      throw new GatewayError('CONFIG', `${path} has more than ${MAX_PATTERN} characters`, { path })
    }
    try {
      if (/[.*+?[\]{}()^$|\\]/.test(pattern)) expressions.push(new RegExp(pattern))
      else texts.add(pattern)
    } catch {
      texts.add(pattern)
      const what = 'is not a valid regular expression, and is compared as text'
      warnings.push(`${path} ${what}: ${pattern}`)
    }
  }
  return { texts, expressions, warnings }
}
