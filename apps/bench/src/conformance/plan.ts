import { UserError } from '../cli.ts'
import { runScenario } from './suite.ts'
import type { Revision, Scenario, Verdict } from './suite.ts'

/** Clients, as on the command line: versions of the SDK, and ours. */
export const CLIENTS = ['v1', 'v2', 'mcp-client'] as const
export type ClientName = (typeof CLIENTS)[number]

/**
 * The clients. `v1` and `v2` are the stock `Client` of the SDK with its defaults, where it sends `initialize` to
 * every server; `v2-modern` is that of SDK v2 in the mode in which it negotiates 2026-07-28 itself. `mcp-client` is
 * our `McpClient`.
 */
export const CLIENT_KINDS = ['v1', 'v2', 'v2-modern', 'mcp-client'] as const
export type ClientKind = (typeof CLIENT_KINDS)[number]

/**
 * The servers. `agents`: a gateway with agents that do what the suite asks for. `sampling`: the same with
 * one more tool, which needs sampling. `fixture`: the HTTP server, sessions and routing of a gateway, in
 * front of a server with the features that agents do not have.
 */
const TARGETS = ['agents', 'sampling', 'fixture'] as const
export type TargetKind = (typeof TARGETS)[number]

/** A scenario with the client or the server that it tests. */
export interface Run extends Scenario {
  readonly subject: ClientKind | TargetKind
  /** False for extensions, and for scenarios that the suite added later or has not decided about. */
  readonly isRequired: boolean
}

const CLIENT_PROGRAM = 'node --conditions=mcp-source src/conformance/client/program.ts'

export async function execute(run: Run): Promise<Verdict> {
  const { subject, isRequired } = run
  if (isClient(subject)) {
    const args = ['--command', `${CLIENT_PROGRAM} ${subject}`]
    // The suite runs a scenario of an extension only with `--force`.
    return runScenario('client', run, isRequired ? args : [...args, '--force'])
  }
  const { startTarget } = await import('./server/target.ts') // needs the installed packages
  await using target = await startTarget(subject) // for this run alone, because scenarios change it
  const args = ['--url', target.url]
  // Scenarios of the Tasks extension need it.
  return await runScenario('server', run, isRequired ? args : [...args, '--force'])
}

export function isClient(subject: Run['subject']): subject is ClientKind {
  return CLIENT_KINDS.some((kind) => kind === subject)
}

/** Client scenarios of the authorization extensions. */
const AUTHORIZATION: readonly string[] = [
  'auth/client-credentials-basic',
  'auth/client-credentials-jwt',
  'auth/enterprise-managed-authorization',
  'auth/wif-jwt-bearer',
  'auth/dpop',
  'auth/dpop-nonce',
]

/** Client scenarios that no revision requires: those, and one that the suite added after the releases. */
const CLIENT_BEYOND = [...AUTHORIZATION, 'json-schema-2020-12-preservation']

/** Client scenarios of the Skills extension, which only `McpClient` has. */
const CLIENT_SKILLS = [
  'sep-2640-client-no-prefetch',
  'sep-2640-client-verify-digest',
  'sep-2640-client-verify-size',
  'sep-2640-client-verify-frontmatter',
]

/** Server scenarios of the Skills extension. */
const SERVER_SKILLS = [
  'sep-2640-skills-enumeration',
  'sep-2640-skills-manifest',
  'sep-2640-skills-directory',
]

/** Whether a scenario is one of the authorization extensions, or of the Skills extension. */
export function isExtension(name: string): boolean {
  return [...AUTHORIZATION, ...CLIENT_SKILLS, ...SERVER_SKILLS].includes(name)
}

/** Scenarios that nothing can pass, or a client not on its own transport either, with the reason. */
export const INAPPLICABLE: Readonly<Record<string, string>> = {
  'v2-modern sep-2322-client-request-state':
    'The suite answers one call without a resultType, as servers of older revisions do. In this mode the Client rejects that, on its own transport too.',
  'agents tasks-status-notifications':
    'The suite skips it: it cannot read notifications from subscriptions/listen yet.',
}

/** Returns the runs of the chosen clients, those that are not applicable included. */
export function clientPlan(
  names: readonly ClientName[],
  scenarios: readonly Scenario[],
): readonly Run[] {
  const kinds = CLIENT_KINDS.filter((kind) => names.some((name) => kind.startsWith(name)))
  const required = kinds.flatMap((subject) =>
    scenarios
      .filter(({ revision }) => subject !== 'v2-modern' || revision === '2026-07-28')
      .map((scenario) => ({ ...scenario, subject, isRequired: true })),
  )
  // The negotiation of the client does not matter for these.
  const beyond = names.flatMap((subject) =>
    (['2025-11-25', '2026-07-28'] as const).flatMap((revision) =>
      [...CLIENT_BEYOND, ...(subject === 'mcp-client' ? CLIENT_SKILLS : [])].map((name) => ({
        revision,
        name,
        subject,
        isRequired: false,
      })),
    ),
  )
  return [...required, ...beyond]
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
    'completion-complete',
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

/** Scenarios of the Tasks extension. */
const TASKS = [
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-request-headers',
  'tasks-dispatch-and-envelope',
  'tasks-required-task-error',
  'tasks-mrtr-composition',
  'tasks-status-notifications',
]

/** Server scenarios that no revision requires: the suite added them later, or has not decided about them. */
const BEYOND: readonly (readonly [Revision, string, TargetKind])[] = [
  ['2025-11-25', 'server-session-lifecycle', 'agents'],
  ['2025-11-25', 'json-schema-2020-12', 'agents'],
  ['2026-07-28', 'json-schema-2020-12', 'agents'],
  ['2026-07-28', 'http-header-validation', 'agents'],
  ...TASKS.map((name) => ['2026-07-28', name, 'agents'] as const),
  ...SERVER_SKILLS.flatMap((name) => [
    ['2025-11-25', name, 'agents'] as const,
    ['2026-07-28', name, 'agents'] as const,
  ]),
]

/**
 * Returns the runs of servers: of the required scenarios, and of those beyond.
 *
 * @throws UserError for a scenario without a target or with two, and for a name that no revision requires.
 */
export function serverPlan(
  scenarios: readonly Scenario[],
  names: Readonly<Record<TargetKind, readonly string[]>> = NAMES,
): readonly Run[] {
  const required = new Set(scenarios.map(({ name }) => name))
  const unknown = TARGETS.flatMap((target) => names[target]).find((name) => !required.has(name))
  if (unknown !== undefined) {
    throw new UserError(`No revision requires the server scenario "${unknown}"`)
  }
  const targetOf = (name: string): TargetKind => {
    const [target, ...others] = TARGETS.filter((each) => names[each].includes(name))
    if (target === undefined) throw new UserError(`The server scenario "${name}" has no target`)
    if (others.length > 0) throw new UserError(`The server scenario "${name}" has two targets`)
    return target
  }
  return [
    ...scenarios.map((one) => ({ ...one, subject: targetOf(one.name), isRequired: true })),
    ...BEYOND.map(([revision, name, subject]) => ({ revision, name, subject, isRequired: false })),
  ]
}

/** One line for each target and revision, with the names of the scenarios. */
export function planLines(plan: readonly Run[]): readonly string[] {
  const groups = Object.groupBy(plan, ({ subject, revision, isRequired }) =>
    [subject.padEnd(10), revision, isRequired ? 'required' : 'not required'].join('  '),
  )
  return Object.entries(groups).map(([group, all = []]) => {
    return `${group}  ${all.length}: ${all.map(({ name }) => name).join(', ')}`
  })
}
