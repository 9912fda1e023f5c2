import { check, isRecord, type Check, type Checks } from '@x/internal'
import type { Principal } from '../../internal/principal.ts'
import { RunFailure, type AgentCall, type JsonSchema } from '../agent.ts'
import { threadStateFrom } from './interrupts.ts'

type Values = Readonly<Record<string, unknown>>

/** Who calls which agent, for a function that makes the context of a run. */
export interface ContextCaller extends Pick<
  AgentCall,
  'agentId' | 'credentials' | 'skillId' | 'runId'
> {
  readonly principal: Principal
}

/** Context of the runs of graphs with a context schema. LangGraph names it `context`, and nodes read it as `runtime.context`. */
export interface ContextOptions {
  /** The context, or a function that makes it for each run, such as from the principal. @default none */
  readonly context?: Values | ((caller: ContextCaller) => Values | Promise<Values>) | undefined
  /**
   * Fields of the context that callers may give, as the parameter `context` of the tool. Fields of `context` win.
   * @default none
   */
  readonly callerContext?: readonly string[] | undefined
}

const contextValue: Check = {
  ...check.or(check.func, check.record),
  takes: 'an object, or a function that returns one',
}

export const contextChecks: Checks<ContextOptions> = {
  context: contextValue,
  callerContext: check.listOf(check.text),
}

/** What a graph needs in its context, and who gives it. */
export interface ContextPlan {
  /** Schema of the parameter `context` of its tools. `undefined`: callers give nothing. */
  readonly callerSchema: JsonSchema | undefined
  /** Required fields without a value. Empty if a function makes the context. */
  readonly missing: readonly string[]
}

/** @param schema context schema of the graph. `undefined`: it has none, and takes any fields */
export function contextPlanOf(
  schema: JsonSchema | undefined,
  { callerContext = [], context }: ContextOptions,
): ContextPlan {
  const own: Values = isRecord(context) ? context : {}
  const { properties, required } = schema ?? {}
  const fields: Values = isRecord(properties) ? properties : {}
  const needed = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
  const names = callerContext.filter((name) => !(name in own))
  const rest = needed.filter((name) => !(name in own) && !names.includes(name))
  const ofCaller = needed.filter((name) => names.includes(name))
  const callerSchema = {
    type: 'object',
    description: 'Context of the agent for this call.',
    properties: Object.fromEntries(names.map((name) => [name, fields[name] ?? {}])),
    additionalProperties: false,
    ...(ofCaller.length > 0 && { required: ofCaller }),
  }
  return {
    callerSchema: names.length === 0 ? undefined : callerSchema,
    missing: typeof context === 'function' ? [] : rest,
  }
}

/** Returns the fields that the caller gave: with this call, or with the one that it continues. */
export function callerContextOf({ context, resume }: AgentCall): Values | undefined {
  return context ?? (resume && threadStateFrom(resume.state)?.context)
}

/**
 * Returns the context of a run. `undefined`: it has none.
 *
 * @throws what the function throws
 */
export async function contextOf(
  call: AgentCall,
  { callerContext = [], context }: ContextOptions,
): Promise<Values | undefined> {
  if (context === undefined && callerContext.length === 0) return undefined
  const { agentId, credentials, principal, runId, skillId } = call
  const own: unknown =
    typeof context === 'function'
      ? await context({ agentId, credentials, principal, runId, skillId })
      : context
  if (own !== undefined && !isRecord(own)) {
    throw new TypeError('The function `context` must return an object')
  }
  const given = Object.entries(callerContextOf(call) ?? {}).filter(([name]) => {
    return callerContext.includes(name)
  })
  const set = Object.entries(own ?? {}).filter(([, value]) => value !== undefined)
  const all = Object.fromEntries([...given, ...set])
  return own === undefined && given.length === 0 ? undefined : all
}

/**
 * Makes the failure of a run whose context is not complete.
 *
 * @param path place of the first field that is missing or wrong
 */
export function contextFailure(
  path: string,
  { callerContext = [] }: ContextOptions,
  why = 'it is missing',
): RunFailure {
  const [field = ''] = path.split('.', 1)
  if (callerContext.includes(field)) {
    return new RunFailure('invalid_arguments', `Bad arguments: /context/${path}: ${why}`)
  }
  const text = `It needs "${path}" in its context, and this gateway does not give it a valid one.`
  return new RunFailure('agent_failed', text, { cause: new Error(`context.${path}: ${why}`) })
}

/** Warns the operator of a graph whose runs all fail. */
export function missingContextText(agent: string, missing: readonly string[]): string {
  return `Every call of the graph "${agent}" will fail: its context needs ${missing.join(', ')}. Set "context", or "callerContext" if callers may give it`
}
