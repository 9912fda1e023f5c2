import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { delimiter, dirname } from 'node:path'
import { text } from 'node:stream/consumers'
import { HOME, UserError } from '../cli.ts'

/** Revisions of MCP that the suite has client scenarios for, oldest first. */
export const REVISIONS = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const
export type Revision = (typeof REVISIONS)[number]

/** The end of a connection that a scenario tests. */
export const SIDES = ['client', 'server'] as const
export type Side = (typeof SIDES)[number]

/** A scenario of the suite in one revision. */
export interface Scenario {
  readonly revision: Revision
  readonly name: string
}

/** Result of one run of a scenario. */
export interface Verdict {
  readonly isPassed: boolean
  /** Failed checks, or the end of the output. */
  readonly reasons: readonly string[]
}

const SUITE = 'node_modules/@modelcontextprotocol/conformance/dist/index.js'
/** Holds compiled code. Without it, compiling takes a third of the time of most runs. */
const CODE_CACHE = `${HOME}node_modules/.cache/compiled`
/** Longer than any wait of the suite. A run that takes longer is killed, and fails. */
const DEADLINE_MS = 90_000

interface SuiteOutput {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

async function runSuite(args: readonly string[]): Promise<SuiteOutput> {
  const child = spawn(process.execPath, [SUITE, ...args], {
    cwd: HOME,
    stdio: ['ignore', 'pipe', 'pipe'],
    // The suite starts the client as `node`, which has to be this version.
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: CODE_CACHE,
      PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
    },
    timeout: DEADLINE_MS,
    killSignal: 'SIGKILL',
  })
  const [stdout, stderr] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { exitCode: child.exitCode, stdout, stderr }
}

/**
 * Runs one scenario alone. In a group, the suite counts failed checks only: a client that crashes, hangs
 * or causes a warning would pass.
 */
export async function runScenario(
  side: Side,
  { name, revision }: Scenario,
  args: readonly string[],
): Promise<Verdict> {
  const scenario = ['--scenario', name, '--spec-version', revision, '--verbose']
  return verdictFrom(await runSuite([side, ...scenario, ...args]))
}

function verdictFrom({ exitCode, stdout, stderr }: SuiteOutput): Verdict {
  const checks = parseChecks(stdout)
  const reasons = failedChecks(checks)
  // A skipped scenario, and one without checks, also exits with 0.
  const isPassed = exitCode === 0 && hasSucceeded(checks) && reasons.length === 0
  if (isPassed || reasons.length > 0) return { isPassed, reasons }
  return { isPassed, reasons: [(stderr === '' ? stdout : stderr).trim().slice(-2000)] }
}

interface Check {
  readonly name: string
  readonly status: string
  readonly description: string
  readonly errorMessage?: string
}

/** Parses the checks in the verbose output of the suite. Returns none if there are none. */
export function parseChecks(stdout: string): readonly Check[] {
  const [list = ''] = /^\[$[^]*^\]$|^\[.*\]$/m.exec(stdout) ?? []
  try {
    const value: unknown = JSON.parse(list)
    return Array.isArray(value) ? value.filter(isCheck) : []
  } catch {
    return []
  }
}

function isCheck(value: unknown): value is Check {
  if (typeof value !== 'object' || value === null) return false
  return ['name', 'status', 'description'].every(
    (key) => typeof Reflect.get(value, key) === 'string',
  )
}

export function hasSucceeded(checks: readonly Check[]): boolean {
  return checks.some(({ status }) => status === 'SUCCESS')
}

/** Failures and warnings, one on each line. */
export function failedChecks(checks: readonly Check[]): readonly string[] {
  return checks
    .filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
    .map(({ name, status, description, errorMessage }) =>
      [`${status} ${name}`, description, errorMessage].filter(Boolean).join(': '),
    )
}

/** Number of scenarios of each list, so that a list that cannot be parsed is noticed. */
const COUNTS: Readonly<Record<Side, Readonly<Record<Revision, number>>>> = {
  client: { '2025-03-26': 2, '2025-06-18': 5, '2025-11-25': 18, '2026-07-28': 32 },
  server: { '2025-03-26': 0, '2025-06-18': 0, '2025-11-25': 30, '2026-07-28': 37 },
}

/**
 * The scenarios that a revision requires of one side. For revisions without a list of requirements: all
 * client scenarios, and no server scenarios.
 *
 * @throws UserError if their number is not the expected one.
 */
export async function requiredScenarios(
  side: Side,
  revision: Revision,
): Promise<readonly Scenario[]> {
  const names = await namesOf(side, revision)
  const count = COUNTS[side][revision]
  if (names.length !== count) {
    throw new UserError(
      `The suite lists ${names.length} ${side} scenarios for ${revision}, not ${count}: is it another version?`,
    )
  }
  return names.map((name) => ({ revision, name }))
}

async function namesOf(side: Side, revision: Revision): Promise<readonly string[]> {
  if (revision !== '2025-03-26' && revision !== '2025-06-18') {
    return requiredNames((await runSuite(['list', '--requirements', revision])).stdout, side)
  }
  if (side === 'server') return []
  return namesFor((await runSuite(['list', '--client'])).stdout, revision)
}

/** Parses the names of one side in the output of `list --requirements <revision>`. */
export function requiredNames(output: string, side: Side): readonly string[] {
  const headline = side === 'client' ? /^Client scenarios.*$/m : /^Server scenarios.*$/m
  const [, rest = ''] = output.split(headline)
  const [block = ''] = rest.split(/^\S/m) // up to the next headline
  return [...block.matchAll(/^ {2}- (\S+)/gm)].map(([, name = '']) => name)
}

/** Parses the names of one revision in the output of `list --client`: `- name [2025-06-18,2025-11-25]`. */
export function namesFor(output: string, revision: string): readonly string[] {
  return [...output.matchAll(/^ {2}- (\S+) \[([^\]]*)\]/gm)]
    .filter(([, , revisions = '']) => revisions.split(',').includes(revision))
    .map(([, name = '']) => name)
}
