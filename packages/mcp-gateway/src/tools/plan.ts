import type { Prompt } from '@modelcontextprotocol/server'
import { canonicalJson, legible } from '@x/internal'
import { compareText, skillsOf } from '../agents/agent.ts'
import type {
  Agent,
  CheckedInput,
  RunTool,
  Skill,
  SkillAnnotations,
  ToolUi,
} from '../agents/agent.ts'
import { schemaDefectOf, shownOutput, validatorFor } from '../agents/schemas.ts'
import { GatewayError } from '../errors.ts'
import { mayUse, type Principal } from '../internal/principal.ts'
import { shortened } from '../internal/text.ts'
import type { TaskPolicy, ToolOverride, ToolSettings } from '../options.ts'
import { createToolFilter, type ToolFilter } from './filter.ts'
import { digestOf, planNames } from './names.ts'
import type { NameCandidate, NameCollision, NamePlan, PlannedName } from './names.ts'
import { CONVERSATIONS_TOOL } from './conversation-tool.ts'
import { RESULT_DEFINITION, RESULT_TOOL, startDefinitionOf, startNameOf } from './pair.ts'
import { parametersOf, withSchemaFromExamples, type ToolParameters } from './parameters.ts'
import { exampleDefect, promptDefinitionOf, promptsOf, type PlannedPrompt } from './prompts.ts'

/**
 * All that the gateway offers at one moment. Never changes: a change of agents makes another plan. `listTools` and
 * `listPrompts` decide what a caller may see.
 */
export interface ToolPlan {
  /** Sorted by name. */
  readonly tools: readonly PlannedTool[]
  /** Tools of the gateway itself, for which settings ask. */
  readonly ownTools: readonly ToolDefinition[]
  byName(name: string): PlannedTool | undefined
  /** Sorted by name. */
  readonly prompts: readonly PlannedPrompt[]
  promptByName(name: string): PlannedPrompt | undefined
  /** All agents, also those without a tool, sorted by id. */
  readonly agents: readonly Agent[]
  /** 16 hex digits. Equal in all processes whose clients see the same list. Does not depend on health. */
  readonly toolsVersion: string
  readonly promptsVersion: string
  /** Skills that want the same name as others. */
  readonly collisions: readonly NameCollision[]
  /** Skills that did not become tools, with the reasons. */
  readonly dropped: readonly DroppedTool[]
  /** Problems of the configuration with these agents, such as an override that fits no skill. */
  readonly warnings: readonly string[]
  /** Keys of `tools.overrides` that fit no skill of these agents. Each is also a warning. */
  readonly unusedOverrides: readonly string[]
}

/** One skill of one agent, as a tool. */
export interface PlannedTool extends RunTool {
  /** Scopes that a caller needs, all of them, to see the tool and to call it. */
  readonly scopes: readonly string[]
  /** How results are cached. @default not */
  readonly cacheTtlMs: number | undefined
  /** Which calls become tasks. */
  readonly tasks: TaskPolicy
  /** Its user interface. */
  readonly ui: ToolUi | undefined
  /** The tool whose calls this one begins without a wait. */
  readonly starts?: PlannedTool | undefined
  /** Entry in `tools/list`. */
  readonly definition: ToolDefinition
  /** Checks the arguments of a call. Never throws. */
  check(args: unknown): ArgumentCheck
}

export interface DroppedTool {
  readonly agentId: string
  readonly skillId: string
  readonly why: 'filtered' | 'schema'
  /** For people. */
  readonly reason: string
}

/** A tool in `tools/list` (specification 2026-07-28, "Tool"). */
export interface ToolDefinition {
  readonly name: string
  /** `<agent name>: <skill name>`, as written there, unless an override sets it. */
  readonly title: string
  readonly description: string
  readonly inputSchema: { readonly type: 'object'; readonly [keyword: string]: unknown }
  readonly outputSchema?: { readonly type: 'object'; readonly [keyword: string]: unknown }
  readonly annotations?: SkillAnnotations
  readonly _meta?: Readonly<Record<string, unknown>>
}

/** Result of the check of the arguments of a call. */
export type ArgumentCheck =
  | {
      readonly ok: true
      readonly arguments: CheckedArguments
      /** All arguments as they were meant, without `resume`. Equal for calls that mean the same. */
      readonly meant: Readonly<Record<string, unknown>>
      /** Names of fields that the tool does not have, and that were left out. They are those of the client. */
      readonly leftOut: readonly string[]
    }
  /** Tells the model which argument is wrong, and why. It becomes a tool error, not a protocol error. */
  | { readonly ok: false; readonly complaint: string }

/** Arguments of a call, in parts. */
export interface CheckedArguments {
  /** Input of the agent. `undefined` only if `resume` came alone. */
  readonly input: CheckedInput | undefined
  /** As `AgentCall.context`. */
  readonly context?: Readonly<Record<string, unknown>> | undefined
  /** As `RunOrder.conversation`. */
  readonly conversation?: string | undefined
  /** URIs of artifacts. They may not exist. */
  readonly files: readonly string[]
  readonly resume: ResumeArgument | undefined
}

/** Continues a run that asked a question, for clients that cannot be asked directly. */
export interface ResumeArgument {
  readonly run: string
  /** Answers by the keys of their questions. */
  readonly answers: Readonly<Record<string, unknown>>
}

/** How plans are made. */
export interface PlanOptions extends ToolSettings {
  /** Time for which files of a run are kept, for descriptions of tools that make files. `undefined`: it is not mentioned. */
  readonly artifactTtlMs: number | undefined
  /** Tools take files of the caller. */
  readonly takesFiles: boolean
  /** Calls may name their conversation. @default false */
  readonly takesConversation?: boolean | undefined
}

/** A skill that becomes a tool, before it has its name. */
interface Draft extends NameCandidate {
  readonly agent: Agent
  readonly skill: Skill
  readonly settings: ToolOverride
  readonly parameters: ToolParameters
  /** `true` for an input schema from the examples of the skill. */
  readonly isInferred: boolean
}

/** Makes plans with one configuration. A plan is a function of the agents. */
export class ToolPlanner {
  readonly #options: PlanOptions
  readonly #filter: ToolFilter
  readonly #ownTools: readonly ToolDefinition[]

  /** @throws GatewayError `CONFIG` */
  constructor(options: PlanOptions) {
    this.#options = options
    this.#filter = createToolFilter(options)
    const settings = [options, ...Object.values(options.overrides)]
    this.#ownTools = [
      ...(options.takesConversation === true ? [CONVERSATIONS_TOOL] : []),
      ...(settings.some(({ tasks }) => tasks === 'pair') ? [RESULT_DEFINITION] : []),
    ]
    const [defect] = overrideDefects(options)
    if (defect) throw defect
  }

  plan(agents: readonly Agent[]): ToolPlan {
    const dropped: DroppedTool[] = []
    const warnings: string[] = []
    const sorted = agents.toSorted((a, b) => compareText(a.id, b.id))
    const unused = new Set(Object.keys(this.#options.overrides))
    const drafts = this.#drafts(sorted, dropped, unused)
    for (const key of unused) warnings.push(unusedText(key))
    if (this.#options.takesConversation === true) {
      const forgetful = sorted.filter(({ keepsThreads }) => keepsThreads === false)
      for (const { name } of forgetful) warnings.push(forgetfulText(name))
    }
    const { names, collisions } = this.#named(drafts, dropped)
    const own = names.map((each) => this.#tool(each, warnings)).toSorted(byName)
    const prompts = own.flatMap(promptsOf).toSorted(byName)
    const tools = own.flatMap(withStart).toSorted(byName)
    const toolByName = new Map(tools.map((tool) => [tool.name, tool]))
    const promptByName = new Map(prompts.map((prompt) => [prompt.name, prompt]))
    // Clients need not read the list again for a change of health.
    const shown = tools.map(({ definition: { _meta, ...rest }, scopes, ui }) => [rest, scopes, ui])
    return {
      tools,
      ownTools: this.#ownTools,
      byName: (name) => toolByName.get(name),
      prompts,
      promptByName: (name) => promptByName.get(name),
      agents: sorted,
      toolsVersion: versionOf(shown),
      promptsVersion: versionOf(prompts),
      collisions,
      dropped,
      warnings,
      unusedOverrides: [...unused],
    }
  }

  /** @param unused keys of overrides. Those that fit a skill are deleted */
  #drafts(agents: readonly Agent[], dropped: DroppedTool[], unused: Set<string>): readonly Draft[] {
    const { overrides, parameters: kind } = this.#options
    const drafts: Draft[] = []
    for (const agent of agents) {
      for (const declared of skillsOf(agent)) {
        const skill = kind === 'examples' ? withSchemaFromExamples(declared) : declared
        const { key = '', settings = {} } = overrideFor(agent, skill, overrides) ?? {}
        unused.delete(key)
        const parameters = parametersOf(agent, skill, this.#options)
        const names = { agentId: agent.id, skillId: skill.id }
        if ('defect' in parameters) {
          const reason = `its input schema cannot be used: ${parameters.defect}`
          dropped.push({ ...names, why: 'schema', reason })
        } else {
          const { name: override, examples } = settings
          drafts.push({
            ...names,
            agentName: agent.name,
            skillName: skill.name,
            override,
            agent,
            skill: examples ? { ...skill, examples } : skill,
            settings,
            parameters,
            isInferred: skill !== declared && parameters.kind === 'schema',
          })
        }
      }
    }
    return drafts
  }

  /**
   * Gives names, and filters by them, until nothing is left out any more: a skill that is left out contests no name. The
   * filter also sees the name that a skill would have alone, so that no other agent can bring an excluded tool back.
   */
  #named(drafts: readonly Draft[], dropped: DroppedTool[]): NamePlan<Draft> {
    const plan = this.#planNames(drafts)
    const kept = plan.names.filter(({ candidate: { agentName, skillName }, wanted, name }) =>
      this.#filter.allows([agentName, skillName, wanted, name]),
    )
    if (kept.length === drafts.length) return plan
    const left = new Set(kept.map(({ candidate }) => candidate))
    for (const { candidate, wanted } of plan.names) {
      if (left.has(candidate)) continue
      const { agentId, skillId } = candidate
      const reason = `"${wanted}" is left out by include and exclude`
      dropped.push({ agentId, skillId, why: 'filtered', reason })
    }
    return this.#named([...left], dropped)
  }

  /** Gives names, none of which is that of a tool of the gateway. */
  #planNames(
    drafts: readonly Draft[],
    reserved: ReadonlySet<string> = new Set(this.#ownTools.map(({ name }) => name)),
  ): NamePlan<Draft> {
    const plan = planNames(drafts, reserved)
    const started = plan.names
      .filter(({ candidate }) => this.#tasksOf(candidate) === 'pair')
      .map(({ name }) => startNameOf(name))
    if (started.every((name) => reserved.has(name))) return plan
    return this.#planNames(drafts, new Set([...reserved, ...started]))
  }

  #tasksOf({ settings }: Draft): TaskPolicy {
    return settings.tasks ?? this.#options.tasks
  }

  #tool({ candidate, name }: PlannedName<Draft>, warnings: string[]): PlannedTool {
    const { agent, skill, settings, parameters, isInferred } = candidate
    const { inputSchema, check, takesResume } = parameters
    const title =
      settings.title ?? (skill.name === '' ? agent.name : `${agent.name}: ${skill.name}`)
    const description = settings.description ?? descriptionOf(skill, this.#options.artifactTtlMs)
    if (description === NOTHING) {
      warnings.push(
        `${name} has no description, and models choose by descriptions. Set one in tools.overrides`,
      )
    }
    if (settings.cacheTtlMs !== undefined && this.#options.takesConversation === true) {
      warnings.push(
        `cacheTtlMs of ${name} has no effect on calls of a conversation, which each call of a known caller is with runs.mode: thread`,
      )
    }
    const defect = skill.outputSchema && schemaDefectOf(skill.outputSchema)
    if (defect !== undefined) warnings.push(`The output schema of ${name} is not used: ${defect}`)
    const declared = defect === undefined ? skill.outputSchema : undefined
    const outputSchema = declared && { ...shownOutput(declared), type: 'object' as const }
    const fits = declared && validatorFor(declared)
    const ui = skill.ui ?? agent.ui
    const annotations = hintsFrom({ ...skill.annotations, ...settings.annotations })
    return {
      name,
      takesResume,
      outputSchema,
      agent,
      skill,
      timeoutMs: settings.timeoutMs,
      scopes: settings.scopes ?? [scopeOf(agent)],
      cacheTtlMs: settings.cacheTtlMs,
      tasks: this.#tasksOf(candidate),
      ui,
      definition: {
        name,
        title,
        description,
        inputSchema,
        ...(outputSchema !== undefined && { outputSchema }),
        ...(annotations !== undefined && { annotations }),
        _meta: {
          agent: agent.name,
          skill: legible(skill.id),
          status: agent.health,
          ...(isInferred && { schemaFrom: 'examples' }),
          ...(ui && { ui: { resourceUri: ui.resourceUri, visibility: ui.visibility } }),
        },
      },
      check,
      checkOutput: (structured) => fits?.(structured),
    }
  }
}

/** Returns a tool, with the one that starts it if it has one. */
function withStart(tool: PlannedTool): readonly PlannedTool[] {
  if (tool.tasks !== 'pair') return [tool]
  const definition = startDefinitionOf(tool.definition, tool.takesResume)
  return [tool, { ...tool, name: definition.name, definition, starts: tool }]
}

/** Warning about an override that fits no skill. */
export function unusedText(key: string): string {
  return `tools.overrides["${key}"] matches no skill now`
}

function byName(one: { readonly name: string }, other: { readonly name: string }): number {
  return compareText(one.name, other.name)
}

/** Returns `agent:<id>:call`. Characters that a scope cannot contain are percent-encoded (RFC 6749, section 3.3). */
export function scopeOf({ id }: Pick<Agent, 'id'>): string {
  const encoded = id.replaceAll(/[^\x21\x23-\x5B\x5D-\x7E]/gu, (char) => encodeURIComponent(char))
  return `agent:${encoded}:call`
}

const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const

/** Drops hints that are not booleans, because clients would refuse the whole list. */
function hintsFrom(annotations: SkillAnnotations): SkillAnnotations | undefined {
  const hints = HINTS.filter((hint) => typeof annotations[hint] === 'boolean')
  if (hints.length === 0) return undefined
  return Object.fromEntries(hints.map((hint) => [hint, annotations[hint]]))
}

function versionOf(value: unknown): string {
  return digestOf(canonicalJson(value)).slice(0, 16)
}

/** Finds the override of a skill, and its key. Ids win over names. */
function overrideFor(
  agent: Agent,
  skill: Skill,
  overrides: ToolSettings['overrides'],
): { readonly key: string; readonly settings: ToolOverride } | undefined {
  const keys = [agent.id, agent.name].flatMap((first) =>
    skill.name === ''
      ? [first, `${first}/${skill.id}`]
      : [`${first}/${skill.id}`, `${first}/${skill.name}`],
  )
  for (const key of keys) {
    const settings = Object.hasOwn(overrides, key) ? overrides[key] : undefined
    if (settings !== undefined) return { key, settings }
  }
  return undefined
}

/**
 * Returns an error with its path for each override that is wrong without regard to the agents: MCP does not allow its
 * name, another override gives the same name, or an example has words in braces that are not the name of an argument.
 */
export function overrideDefects({
  overrides,
}: Pick<ToolSettings, 'overrides'>): readonly GatewayError[] {
  const defects: GatewayError[] = []
  const owners = new Map<string, string>()
  for (const [key, { name, examples = [] }] of Object.entries(overrides)) {
    const path = `tools.overrides["${key}"]`
    for (const [index, example] of examples.entries()) {
      const defect = exampleDefect(example)
      if (defect !== undefined) defects.push(wrong(`${path}.examples[${index}]`, `: ${defect}`))
    }
    if (name === undefined) continue
    const other = owners.get(name)
    const defect = nameDefect(name) ?? (other && `tools.overrides["${other}"] gives the same name`)
    if (defect !== undefined) defects.push(wrong(`${path}.name`, ` is "${name}": ${defect}`))
    owners.set(name, key)
  }
  return defects
}

function wrong(path: string, problem: string): GatewayError {
  return new GatewayError('CONFIG', `${path}${problem}`, { path })
}

function forgetfulText(name: string): string {
  return `The calls of the agent "${name}" share nothing, although runs.mode is thread, so its tools take no "conversation". Compile its graph with a checkpointer: compile({ checkpointer })`
}

/** Characters of a name that model providers accept. */
const MAX_NAME = 64

function nameDefect(name: string): string | undefined {
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) return 'only letters, digits, "_", "-" and "." are allowed'
  return name.length <= MAX_NAME ? undefined : `it has more than ${MAX_NAME} characters`
}

/** Returns the tools that this caller may see, sorted by name. Callers with the same scopes see the same. */
export function listTools(plan: ToolPlan, principal: Principal): readonly ToolDefinition[] {
  const tools = plan.tools.filter((tool) => mayUse(principal, tool))
  const definitions = tools.map(({ definition }) => definition)
  const own = listOwnTools(plan, tools)
  return own.length === 0 ? definitions : [...definitions, ...own].toSorted(byName)
}

/** Returns the tools of the gateway itself that belong beside these tools of agents. */
export function listOwnTools(
  plan: ToolPlan,
  tools: readonly PlannedTool[],
): readonly ToolDefinition[] {
  if (tools.length === 0) return []
  const isPaired = tools.some(({ starts }) => starts)
  return plan.ownTools.filter(({ name }) => name !== RESULT_TOOL || isPaired)
}

/** Returns the prompts that this caller may see, sorted by name. */
export function listPrompts(plan: ToolPlan, principal: Principal): readonly Prompt[] {
  return plan.prompts.filter((prompt) => mayUse(principal, prompt)).map(promptDefinitionOf)
}

// ---- descriptions --------------------------------------------------------------------------------------------------

const MAX_LENGTH = 2048
const MAX_EXAMPLES = 3
const NO_FILE = /^(?:text(?:\/plain)?|application\/json)$/i
/** Description of a skill that has none. */
const NOTHING = 'No description available'

/**
 * Makes the description for models: description, examples, modes and tags of the skill. If the skill makes files, it
 * also says how long they can be read (specification 2026-07-28: the lifetime of a handle must be visible).
 *
 * @param artifactTtlMs milliseconds for which files are kept. @default not mentioned
 */
export function descriptionOf(skill: Skill, artifactTtlMs?: number): string {
  const { description, examples = [], inputModes = [], outputModes = [], tags = [] } = skill
  const modes = [
    inputModes.length > 0 ? `Input modes: ${inputModes.join(', ')}` : '',
    outputModes.length > 0 ? `Output modes: ${outputModes.join(', ')}` : '',
  ]
  const numbered = examples
    .slice(0, MAX_EXAMPLES)
    .map((example, index) => `${index + 1}. ${example.trim()}`)
  const paragraphs = [
    description.trim(),
    numbered.length > 0 ? ['Examples:', ...numbered].join('\n') : '',
    modes.filter(Boolean).join(' | '),
    tags.length > 0 ? `Tags: ${tags.join(', ')}` : '',
  ]
  const body = paragraphs.filter(Boolean).join('\n\n') || NOTHING
  const lifetime =
    artifactTtlMs !== undefined && outputModes.some((mode) => !NO_FILE.test(mode.trim()))
      ? `\n\nFiles it makes can be read for ${durationOf(artifactTtlMs)}.`
      : ''
  return shortened(body, MAX_LENGTH - lifetime.length) + lifetime
}

function durationOf(ms: number): string {
  const minutes = Math.max(1, Math.round(ms / 60_000))
  if (minutes < 120) return minutes === 1 ? 'a minute' : `${minutes} minutes`
  return `${Math.round(minutes / 60)} hours`
}
