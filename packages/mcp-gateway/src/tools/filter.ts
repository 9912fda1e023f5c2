import { GatewayError } from '../errors.ts'

/** Decides which skills become tools. */
export interface ToolFilter {
  /** Whether a tool with these names is offered: of its agent, of its skill and of the tool. */
  allows(names: readonly string[]): boolean
  /** Patterns that look like regular expressions, but are not valid. */
  readonly warnings: readonly string[]
}

export interface ToolFilterOptions {
  readonly include?: readonly string[] | undefined
  readonly exclude?: readonly string[] | undefined
}

const MAX_PATTERN = 256
/** Names come from agents. Only so many characters are matched. */
const MAX_TESTED = 256

/**
 * Exact patterns decide before regular expressions, and `exclude` before `include`.
 *
 * @throws GatewayError `CONFIG` if a pattern is too long
 */
export function createToolFilter({ include = [], exclude = [] }: ToolFilterOptions): ToolFilter {
  const warnings: string[] = []
  const inside = patternsFrom(include, { option: 'include', warnings })
  const outside = patternsFrom(exclude, { option: 'exclude', warnings })
  return {
    warnings,
    allows(names) {
      const tested = names.filter((name) => name !== '').map((name) => name.slice(0, MAX_TESTED))
      if (names.some((name) => outside.texts.has(name))) return false
      if (names.some((name) => inside.texts.has(name))) return true
      if (matchesAny(outside.expressions, tested)) return false
      if (matchesAny(inside.expressions, tested)) return true
      return include.length === 0
    },
  }
}

interface Patterns {
  readonly texts: ReadonlySet<string>
  readonly expressions: readonly RegExp[]
}

interface PatternContext {
  readonly option: string
  readonly warnings: string[]
}

function patternsFrom(patterns: readonly string[], context: PatternContext): Patterns {
  const texts = new Set<string>()
  const expressions: RegExp[] = []
  for (const [index, pattern] of patterns.entries()) {
    const path = `tools.${context.option}[${index}]`
    if (pattern.length > MAX_PATTERN) {
      throw new GatewayError('CONFIG', `${path} has more than ${MAX_PATTERN} characters`, { path })
    }
    const expression = /[.*+?[\]{}()^$|\\]/.test(pattern) ? expressionFrom(pattern) : undefined
    if (expression === undefined) texts.add(pattern)
    else if (expression === 'invalid') {
      texts.add(pattern)
      context.warnings.push(
        `${path} is not a valid regular expression, and is compared as text: ${pattern}`,
      )
    } else expressions.push(expression)
  }
  return { texts, expressions }
}

function expressionFrom(pattern: string): RegExp | 'invalid' {
  try {
    return new RegExp(pattern)
  } catch {
    return 'invalid'
  }
}

function matchesAny(expressions: readonly RegExp[], names: readonly string[]): boolean {
  return expressions.some((expression) => names.some((name) => expression.test(name)))
}
