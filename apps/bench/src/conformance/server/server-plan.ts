import { UserError } from '../../cli.ts'
import type { Scenario } from '../required-scenarios.ts'
import type { ServerScenario } from './run-server-scenario.ts'
import { TARGETS } from './target-kind.ts'
import type { TargetKind } from './target-kind.ts'

/** Which target each scenario is run against, whichever revision requires it. */
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
    // questions, of sessions and in rounds
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
    // prompts by names of the suite's own
    'prompts-get-simple',
    'prompts-get-with-args',
    'prompts-get-embedded-resource',
    'prompts-get-with-image',
    // what no agent asks for: sampling, roots
    'tools-call-sampling',
    'input-required-result-basic-sampling',
    'input-required-result-basic-list-roots',
    'input-required-result-multiple-input-requests',
    'input-required-result-capability-check',
    // questions by a key of the suite's own, and answers before there was a question
    'input-required-result-basic-elicitation',
    'input-required-result-ignore-extra-params',
    // a prompt that asks
    'input-required-result-non-tool-request',
  ],
}

/** What the suite has beside that, and lets servers fail: added later, or still to be decided. */
export const BEYOND: readonly ServerScenario[] = [
  { revision: '2025-11-25', name: 'server-session-lifecycle', subject: 'agents' },
  { revision: '2025-11-25', name: 'server-sse-polling', subject: 'fixture' },
  { revision: '2025-11-25', name: 'json-schema-2020-12', subject: 'agents' },
  { revision: '2026-07-28', name: 'json-schema-2020-12', subject: 'agents' },
  { revision: '2026-07-28', name: 'http-header-validation', subject: 'agents' },
]

/**
 * All that is required of servers, each with its target.
 *
 * @param scenarios of all revisions
 * @throws UserError for a scenario with no target or two, and for one in the lists that nobody requires
 */
export function serverPlanFor(
  scenarios: readonly Scenario[],
  names: Readonly<Record<TargetKind, readonly string[]>> = NAMES,
): readonly ServerScenario[] {
  const required = new Set(scenarios.map(({ name }) => name))
  const stray = TARGETS.flatMap((target) => names[target]).find((name) => !required.has(name))
  if (stray !== undefined) {
    throw new UserError(`No revision requires the scenario "${stray}" of servers`)
  }
  return scenarios.map((scenario) => ({ ...scenario, subject: targetOf(scenario.name, names) }))
}

/** One line for each target and revision: what runs there. */
export function planLines(plan: readonly ServerScenario[]): readonly string[] {
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
