import { GatewayError } from '../errors.ts'
import type { ToolSettings } from '../options.ts'

/** Decides which skills become tools. */
export interface ToolFilter {
  /** Whether a tool with these names is offered: of its agent, of its skill and of the tool. */
  allows(names: readonly string[]): boolean
}

const MAX_PATTERN = 256
/** Characters that show a regular expression. Brackets and dots are not among them: names of agents may have them. */
const EXPRESSION = /^\^|\$$|\.[*+]|\\/

/**
 * Exact texts decide before globs, and `exclude` before `include`. Agents choose the names, so a glob is matched in
 * one pass: a regular expression could take minutes for a name that was made for it.
 *
 * @throws GatewayError `CONFIG` if a pattern is too long, or a regular expression
 */
export function createToolFilter(settings: FilterSettings): ToolFilter {
  const [defect] = patternDefects(settings)
  if (defect) throw defect
  const { include, exclude } = settings
  const inside = patternsFrom(include)
  const outside = patternsFrom(exclude)
  return {
    allows(names) {
      const isMatched = (glob: Glob): boolean => names.some((name) => matches(glob, name))
      if (names.some((name) => outside.texts.has(name))) return false
      if (names.some((name) => inside.texts.has(name))) return true
      if (outside.globs.some(isMatched)) return false
      return include.length === 0 || inside.globs.some(isMatched)
    },
  }
}

type FilterSettings = Pick<ToolSettings, 'include' | 'exclude'>

/** Returns an error with its path for each pattern that cannot be used. */
export function patternDefects({ include, exclude }: FilterSettings): readonly GatewayError[] {
  const all = Object.entries({ include, exclude })
  return all.flatMap(([option, patterns]) =>
    patterns.flatMap((pattern, index) => {
      const path = `tools.${option}[${index}]`
      const reason = patternDefect(pattern)
      return reason === undefined ? [] : [new GatewayError('CONFIG', `${path} ${reason}`, { path })]
    }),
  )
}

function patternDefect(pattern: string): string | undefined {
  if (pattern.length > MAX_PATTERN) return `has more than ${MAX_PATTERN} characters`
  if (!EXPRESSION.test(pattern)) return undefined
  const example = 'write "weather_*" for all names that begin with "weather_"'
  return `is a regular expression (${pattern}), but only * has a meaning: ${example}`
}

/** The texts around the stars of a pattern: at least two. */
type Glob = readonly string[]

function patternsFrom(patterns: readonly string[]) {
  const globs = patterns.filter((pattern) => pattern.includes('*'))
  return {
    texts: new Set(patterns.filter((pattern) => !pattern.includes('*'))),
    globs: globs.map((pattern): Glob => pattern.split('*')),
  }
}

function matches(glob: Glob, name: string): boolean {
  const start = glob[0] ?? ''
  const end = glob.at(-1) ?? ''
  if (name === '' || name.length < start.length + end.length) return false
  if (!name.startsWith(start) || !name.endsWith(end)) return false
  let at = start.length
  for (const part of glob.slice(1, -1)) {
    const found = name.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= name.length - end.length
}
