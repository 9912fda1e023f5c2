import { GatewayError } from './gateway-error.ts'
import { isRecord } from './is-record.ts'

/** Sections that hold numbers, and nothing that runs. */
const SECTIONS = [
  'artifacts',
  'http',
  'inline',
  'limits',
  'registry',
  'runs',
  'sessions',
  'streaming',
  'tools',
] as const

/** What has a unit in its name is a number, whatever the compiler was not there to see. */
const MEASURE = /(?:Ms|Bytes|Chars|PerMinutePer[A-Z]\w+)$/

/** Of which none at all lets nothing run: each call would wait for its end, or be there. */
const AT_LEAST_ONE =
  /^(?:runs\.(?:timeoutMs|maxConcurrent|maxConcurrentPerPrincipal)|tools\.overrides.*\.timeoutMs)$/

/**
 * Refuses numbers that no limit can be: a variable of the environment that is not set makes `NaN` of `Number(…)`,
 * and `NaN` is a time that is over at once, or a size that nothing exceeds.
 *
 * @throws GatewayError `CONFIG` that names the first of them
 */
export function checkNumbers(
  options: Readonly<Partial<Record<(typeof SECTIONS)[number], unknown>>>,
): void {
  for (const section of SECTIONS) checkWithin(options[section], section)
}

function checkWithin(value: unknown, path: string): void {
  if (!isPlain(value)) return
  for (const [key, each] of Object.entries(value)) {
    const at = /^\w+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`
    const least = AT_LEAST_ONE.test(at) ? 1 : 0
    if (typeof each === 'number' ? !(each >= least) : isMeasure(key, each)) {
      const shown = typeof each === 'number' ? String(each) : `a ${typeof each}`
      throw new GatewayError('CONFIG', `${at} is ${shown}; expected a number, ${least} or more`, {
        path: at,
      })
    }
    checkWithin(each, at)
  }
}

function isMeasure(key: string, value: unknown): boolean {
  return MEASURE.test(key) && value !== undefined
}

/** Lists and objects as one writes them: stores, clocks and the like hold numbers of their own. */
function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (Array.isArray(value)) return true
  return isRecord(value) && Object.getPrototypeOf(value) === Object.prototype
}
