import { UserError } from '../cli.ts'
import { runScenario } from './suite.ts'
import type { Scenario, Verdict } from './suite.ts'

/** Versions of the SDK, as on the command line. */
export const CLIENTS = ['v1', 'v2'] as const
export type ClientVersion = (typeof CLIENTS)[number]

/**
 * The stock clients. `v2` is the `Client` of SDK v2 with its defaults, where it sends `initialize` to every
 * server; `v2-modern` is the same client in the mode in which it negotiates 2026-07-28 itself.
 */
export const CLIENT_KINDS = ['v1', 'v2', 'v2-modern'] as const
export type ClientKind = (typeof CLIENT_KINDS)[number]

/**
 * The servers. `agents`: a gateway with agents that do what the suite asks for. `sampling`: the same with
 * one more tool, which needs sampling. `fixture`: the HTTP server, sessions and routing of a gateway, in
 * front of a server with the features that agents do not have.
 */
const TARGETS = ['agents', 'sampling', 'fixture'] as const
export type TargetKind = (typeof TARGETS)[number]

/** A scenario with the client that it tests. */
export interface ClientRun extends Scenario {
  readonly subject: ClientKind
  /** The suite runs a scenario of an extension only with `--force`. */
  readonly isExtension?: boolean
}

/** A scenario with the server that it tests. */
export interface ServerRun extends Scenario {
  readonly subject: TargetKind
}

const CLIENT_PROGRAM = 'node --conditions=mcp-source src/conformance/client/program.ts'

export function runClient(run: ClientRun): Promise<Verdict> {
  const args = ['--command', `${CLIENT_PROGRAM} ${run.subject}`]
  return runScenario('client', run, run.isExtension === true ? [...args, '--force'] : args)
}

/** Starts a server for the run alone, because scenarios change it. */
export async function runServer(run: ServerRun): Promise<Verdict> {
  const { startTarget } = await import('./server/target.ts') // needs the installed packages
  await using target = await startTarget(run.subject)
  return await runScenario('server', run, ['--url', target.url])
}

/** Client scenarios of the authorization extensions. No revision requires them. */
export const EXTENSIONS: readonly (Scenario & { readonly isExtension: true })[] = [
  'auth/client-credentials-basic',
  'auth/client-credentials-jwt',
  'auth/enterprise-managed-authorization',
  'auth/wif-jwt-bearer',
  'auth/dpop',
  'auth/dpop-nonce',
].flatMap((name) => [
  { revision: '2025-11-25' as const, name, isExtension: true as const },
  { revision: '2026-07-28' as const, name, isExtension: true as const },
])

/** Scenarios that a client cannot pass on its own transport either, with the reason. */
const INAPPLICABLE: Readonly<Record<ClientKind, Readonly<Record<string, string>>>> = {
  v1: {},
  v2: {},
  'v2-modern': {
    'sep-2322-client-request-state':
      'The suite answers one call without a resultType, as servers of older revisions do. In this mode the Client rejects that, on its own transport too.',
  },
}

/** A run that is left out. */
export interface Inapplicable extends ClientRun {
  readonly reason: string
}

/** The runs of all chosen clients. `v2-modern` takes part in 2026-07-28 only. */
export function clientPlan(
  versions: readonly ClientVersion[],
  scenarios: readonly (Scenario & { readonly isExtension?: boolean })[],
): { readonly runs: readonly ClientRun[]; readonly inapplicable: readonly Inapplicable[] } {
  const kinds = CLIENT_KINDS.filter((kind) => versions.some((version) => kind.startsWith(version)))
  const all = kinds.flatMap((subject) =>
    scenarios
      // The negotiation of the client does not matter for the extensions.
      .filter(
        ({ revision, isExtension }) =>
          subject !== 'v2-modern' || (revision === '2026-07-28' && isExtension !== true),
      )
      .map((scenario) => ({ ...scenario, subject })),
  )
  const inapplicable = all.flatMap((run) => {
    const reason = INAPPLICABLE[run.subject][run.name]
    return reason === undefined ? [] : [{ ...run, reason }]
  })
  return { runs: all.filter(({ subject, name }) => !(name in INAPPLICABLE[subject])), inapplicable }
}

/** The target of each scenario, in all revisions. */
const NAMES: Readonly<Record<TargetKind, readonly string[]>> = {
  agents: [
    // lifecycle and transport
    'server-initialize',
    'ping',
    'dns-rebinding-protection',
    'server-sse-multiple-streams',
    // tools
    'tools-list',
    'tools-call-simple-text',
    'tools-call-error',
    'tools-call-image',
    'tools-call-audio',
    'tools-call-embedded-resource',
    'tools-call-mixed-content',
    'tools-call-with-progress',
    'logging-set-level',
    'tools-call-with-logging',
    // elicitation, in sessions and in rounds
    'tools-call-elicitation',
    'elicitation-sep1034-defaults',
    'elicitation-sep1330-enums',
    'input-required-result-request-state',
    'input-required-result-multi-round',
    'input-required-result-missing-input-response',
    'input-required-result-result-type',
    'input-required-result-unsupported-methods',
    'input-required-result-tampered-state',
    'input-required-result-validate-input',
    // lists and files
    'prompts-list',
    'resources-list',
    'completion-complete',
    'sep-2164-resource-not-found',
    'caching',
  ],
  // discovery, headers, capabilities, and changes of lists
  sampling: ['server-stateless'],
  fixture: [
    // `test://` resources
    'resources-read-text',
    'resources-read-binary',
    'resources-templates-read',
    'resources-subscribe',
    'resources-unsubscribe',
    // prompts with names of the suite
    'prompts-get-simple',
    'prompts-get-with-args',
    'prompts-get-embedded-resource',
    'prompts-get-with-image',
    // sampling and roots, which no agent asks for
    'tools-call-sampling',
    'input-required-result-basic-sampling',
    'input-required-result-basic-list-roots',
    'input-required-result-multiple-input-requests',
    'input-required-result-capability-check',
    // elicitation with a key of the suite, and answers that come before the question
    'input-required-result-basic-elicitation',
    'input-required-result-ignore-extra-params',
    // a prompt that asks for input
    'input-required-result-non-tool-request',
  ],
}

/** Server scenarios that no revision requires: the suite added them later, or has not decided about them. */
export const BEYOND: readonly ServerRun[] = [
  { revision: '2025-11-25', name: 'server-session-lifecycle', subject: 'agents' },
  { revision: '2025-11-25', name: 'server-sse-polling', subject: 'fixture' },
  { revision: '2025-11-25', name: 'json-schema-2020-12', subject: 'agents' },
  { revision: '2026-07-28', name: 'json-schema-2020-12', subject: 'agents' },
  { revision: '2026-07-28', name: 'http-header-validation', subject: 'agents' },
]

/**
 * The required scenarios of servers, with their targets.
 *
 * @throws UserError for a scenario without a target or with two, and for a name that no revision requires.
 */
export function serverPlan(
  scenarios: readonly Scenario[],
  names: Readonly<Record<TargetKind, readonly string[]>> = NAMES,
): readonly ServerRun[] {
  const required = new Set(scenarios.map(({ name }) => name))
  const unknown = TARGETS.flatMap((target) => names[target]).find((name) => !required.has(name))
  if (unknown !== undefined) {
    throw new UserError(`No revision requires the server scenario "${unknown}"`)
  }
  return scenarios.map((scenario) => ({ ...scenario, subject: targetOf(scenario.name, names) }))
}

/** One line for each target and revision, with the names of the scenarios. */
export function planLines(plan: readonly ServerRun[]): readonly string[] {
  const groups = Object.groupBy(
    plan,
    ({ subject, revision }) => `${subject.padEnd(9)}  ${revision}`,
  )
  return Object.entries(groups).map(([group, all = []]) => {
    return `${group}  ${all.length}: ${all.map(({ name }) => name).join(', ')}`
  })
}

function targetOf(
  name: string,
  names: Readonly<Record<TargetKind, readonly string[]>>,
): TargetKind {
  const [target, ...others] = TARGETS.filter((each) => names[each].includes(name))
  if (target === undefined) throw new UserError(`The server scenario "${name}" has no target`)
  if (others.length > 0) throw new UserError(`The server scenario "${name}" has two targets`)
  return target
}
