import { completeSettings } from '../src/gateway/checked-options.ts'
import { READ_MAX_BYTES, type ArtifactsOptions } from '../src/files/artifacts.ts'
import { gatewayFiles } from '../src/files/run-files.ts'
import { systemClock } from '../src/internal/clock.ts'
import type { GatewaySettings, Given, ToolSettings } from '../src/options.ts'
import { LocalEngine } from '../src/runs/engine.ts'
import { Calls, type CallsOptions } from '../src/runs/calls.ts'
import { Runs, STOP_GRACE_MS, type RunsOptions } from '../src/runs/runs.ts'
import { ProcessLease } from '../src/store/lease.ts'
import { DEBOUNCE_MS, type AgentRegistryOptions } from '../src/tools/agent-registry.ts'
import type { PlanOptions } from '../src/tools/plan.ts'

/** All settings with their defaults. */
export const DEFAULTS: GatewaySettings = completeSettings('a test', {})

export type GivenRuns = Partial<RunsOptions & CallsOptions> &
  Pick<RunsOptions, 'agents' | 'records'>

/** Makes the calls of a process, and its runs. Adds defaults to their options. */
export function callsOf(given: GivenRuns): Calls {
  const { clock = systemClock, records } = given
  const options = {
    ...DEFAULTS.runs,
    stopGraceMs: STOP_GRACE_MS,
    files: gatewayFiles({
      ...DEFAULTS.artifacts,
      artifacts: undefined,
      inline: DEFAULTS.inline,
    }),
    engine: new LocalEngine(),
    isEngineShared: false,
    logs: undefined,
    outlive: true,
    resultTtlMs: DEFAULTS.resultTtlMs,
    onEvent: () => undefined,
    onError: () => undefined,
    clock,
    lease: new ProcessLease(records, clock),
    ...given,
  }
  return new Calls({ runs: new Runs(options), ...options })
}

export type GivenArtifacts = Partial<ArtifactsOptions> & Pick<ArtifactsOptions, 'store'>

/** Adds defaults to the options of `Artifacts`. */
export const artifactsOptions = (given: GivenArtifacts): ArtifactsOptions => ({
  ...DEFAULTS.artifacts,
  ttlMs: DEFAULTS.resultTtlMs,
  readMaxBytes: READ_MAX_BYTES,
  key: 'k'.repeat(32),
  clock: systemClock,
  onChange: () => undefined,
  ...given,
})

export type GivenPlan = Given<ToolSettings> &
  Partial<Pick<PlanOptions, 'artifactTtlMs' | 'takesConversation' | 'takesFiles'>>

/** Adds defaults to the options of a plan. Checks no range. */
export const planOptions = (given: GivenPlan = {}): PlanOptions => ({
  artifactTtlMs: undefined,
  takesFiles: false,
  ...withDefaults(DEFAULTS.tools, given),
})

export type GivenRegistry = { readonly tools?: GivenPlan } & Partial<
  Pick<AgentRegistryOptions, 'sources' | 'onWarning' | 'clock' | 'debounceMs'>
>

/** Adds defaults to the options of a registry. */
export function registryOptions({ tools, ...given }: GivenRegistry): AgentRegistryOptions {
  const { clock = systemClock } = given
  return {
    sources: [],
    onWarning: () => undefined,
    clock,
    debounceMs: DEBOUNCE_MS,
    ...given,
    tools: planOptions(tools),
  }
}

/** Adds defaults, also inside of sections. */
function withDefaults<T extends object>(defaults: T, given: object): T {
  const entries = Object.entries(defaults).map(([key, usual]: [string, unknown]) => {
    const own: unknown = Reflect.get(given, key)
    if (own === undefined) return [key, usual]
    return [key, isSection(own) && isSection(usual) ? { ...usual, ...own } : own]
  })
  // eslint-disable-next-line typescript/no-unsafe-type-assertion -- the keys are those of the defaults
  return { ...given, ...Object.fromEntries(entries) } as T
}

const isSection = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
