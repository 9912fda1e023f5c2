import { isRecord } from '@x/internal'
import { mayUse, type Principal } from '../internal/principal.ts'
import type { CheckedArguments, PlannedTool, ToolDefinition, ToolPlan } from './plan.ts'
import { EXTRA_SCHEMAS, extrasFor } from './parameters.ts'
import { nearestNames } from './names.ts'
import { withoutHeaderHints } from '../agents/schemas.ts'
import { shortened } from '../internal/text.ts'
import type { ExtraSettings } from '../options.ts'

/** A tool of the gateway itself, for clients that ignore list changes, or would get too many tools. */
export interface MetaTool {
  readonly name: MetaToolName
  readonly definition: ToolDefinition
}

export type MetaToolName = 'agent_call' | 'agents_list'

/** Sorted by name. */
export function metaToolsWith(wanted: ExtraSettings): readonly MetaTool[] {
  const extras = extrasFor(wanted, true)
  const definitions: readonly (ToolDefinition & { readonly name: MetaToolName })[] = [
    {
      name: 'agent_call',
      title: 'Call an agent',
      description: 'Gives a message to an agent, and returns its answer. See agents_list.',
      inputSchema: {
        type: 'object',
        properties: {
          agent: { type: 'string', description: 'As agents_list names it.' },
          skill: { type: 'string', description: 'Needed where the agent has several.' },
          message: { type: 'string', description: 'What to ask the agent, in full.' },
          arguments: {
            type: 'object',
            description: 'Instead of a message, for skills with an inputSchema.',
          },
          ...Object.fromEntries(extras.map((name) => [name, EXTRA_SCHEMAS[name]])),
        },
        required: ['agent'],
      },
    },
    {
      name: 'agents_list',
      title: 'List agents',
      description: 'Agents that are there now, with their skills and their health.',
      inputSchema: {
        type: 'object',
        properties: {
          query: { type: 'string', description: 'Only those with this text in what they say.' },
          cursor: { type: 'string', description: 'nextCursor of the page before.' },
        },
      },
      annotations: { readOnlyHint: true },
    },
  ]
  return definitions.map((definition) => ({ name: definition.name, definition }))
}

/** A page of agents. */
export interface AgentsPage {
  readonly agents: readonly ListedAgent[]
  readonly nextCursor?: string
}

interface ListedAgent {
  /** Argument of `agent_call`: the name of the agent, or its id if several agents have that name. */
  readonly agent: string
  readonly description: string
  readonly status: string
  readonly skills: readonly ListedSkill[]
}

interface ListedSkill {
  readonly skill: string
  readonly name: string
  readonly description: string
  /** Tool with the same effect. */
  readonly tool: string
  readonly inputSchema?: unknown
}

/** Result of the check of the arguments of a meta-tool. */
export type MetaAnswer<Value> =
  | ({ readonly ok: true } & Value)
  | { readonly ok: false; readonly complaint: string }

const PAGE = 20
const MAX_DESCRIPTION = 400

/** Answers `agents_list` with the agents and skills that the caller may use. */
export function agentsPage(
  plan: ToolPlan,
  principal: Principal,
  args: unknown = {},
): MetaAnswer<{ readonly page: AgentsPage }> {
  const { query = '', cursor } = isRecord(args) ? args : {}
  if (typeof query !== 'string') return refused('/query must be a text')
  const after = cursor === undefined ? '' : agentIdFrom(cursor)
  if (after === undefined) return refused('/cursor is not one that agents_list gave')
  const all = usableAgents(plan, principal)
  const found = all.filter((each) => each.id > after && says(each, query.toLowerCase()))
  const last = found[PAGE - 1]
  return {
    ok: true,
    page: {
      agents: found.slice(0, PAGE).map(listed),
      ...(found.length > PAGE &&
        last !== undefined && { nextCursor: Buffer.from(last.id).toString('base64url') }),
    },
  }
}

/** Finds the tool that an `agent_call` means, and its arguments. */
export function resolveAgentCall(
  plan: ToolPlan,
  principal: Principal,
  args: unknown,
): MetaAnswer<{ readonly tool: PlannedTool; readonly arguments: CheckedArguments }> {
  if (!isRecord(args) || typeof args['agent'] !== 'string') return refused('/agent must be a text')
  const { agent: wanted, skill: wantedSkill, message, arguments: own, ...rest } = args
  const all = usableAgents(plan, principal)
  const agent = all.find(({ handle }) => handle === wanted) ?? all.find(({ id }) => id === wanted)
  if (agent === undefined) {
    const handles = all.map(({ handle }) => handle)
    const near = nearestNames(wanted, handles).map((each) => `"${each}"`)
    const advice = near.length === 0 ? '' : `; there is ${near.join(', ')}`
    return refused(`there is no such agent${advice}`)
  }
  const ofAgent = agent.tools
  const tool =
    wantedSkill === undefined && ofAgent.length === 1
      ? ofAgent[0]
      : ofAgent.find(({ skill }) => skill.id === wantedSkill || skill.name === wantedSkill)
  if (tool === undefined) {
    const skills = ofAgent.slice(0, PAGE).map(({ skill }) => `"${skill.id}"`)
    return refused(`/skill must be one of ${skills.join(', ')}`)
  }
  if (tool.parameters === 'schema' && own === undefined && rest['resume'] === undefined) {
    return refused('/arguments is needed: this skill has an inputSchema (see agents_list)')
  }
  if (own !== undefined && !isRecord(own)) return refused('/arguments must be an object')
  const extras = Object.fromEntries(
    Object.entries(rest).filter(([name]) => Object.hasOwn(EXTRA_SCHEMAS, name)),
  )
  const given = tool.parameters === 'schema' ? own : message === undefined ? undefined : { message }
  const checked = tool.check({ ...extras, ...given })
  return checked.ok ? { ok: true, tool, arguments: checked.arguments } : checked
}

interface UsableAgent {
  readonly id: string
  readonly handle: string
  readonly tools: readonly [PlannedTool, ...PlannedTool[]]
}

/** Sorted by id. */
function usableAgents(plan: ToolPlan, principal: Principal): readonly UsableAgent[] {
  const visible = plan.tools.filter((tool) => mayUse(principal, tool))
  const byAgent = new Map<string, PlannedTool[]>()
  const ids = new Map<string, Set<string>>()
  for (const tool of visible) {
    const { id, name } = tool.agent
    byAgent.set(id, [...(byAgent.get(id) ?? []), tool])
    ids.set(name, (ids.get(name) ?? new Set()).add(id))
  }
  return plan.agents.flatMap(({ id, name }): readonly UsableAgent[] => {
    const [first, ...others] = byAgent.get(id) ?? []
    if (first === undefined) return []
    const handle = ids.get(name)?.size === 1 && name !== '' ? name : id
    return [{ id, handle, tools: [first, ...others] }]
  })
}

function listed({ handle, tools }: UsableAgent): ListedAgent {
  const { agent } = tools[0]
  return {
    agent: handle,
    description: shortened(agent.description, MAX_DESCRIPTION),
    status: agent.health,
    skills: tools.map(({ name, skill, parameters }) => ({
      skill: skill.id,
      name: skill.name,
      description: shortened(skill.description, MAX_DESCRIPTION),
      tool: name,
      // The parameters that the gateway adds are beside `arguments`.
      ...(parameters === 'schema' && { inputSchema: withoutHeaderHints(skill.inputSchema ?? {}) }),
    })),
  }
}

function says({ tools }: UsableAgent, query: string): boolean {
  const { agent } = tools[0]
  const texts = [
    agent.name,
    agent.description,
    ...tools.flatMap(({ skill }) => [skill.name, skill.description, ...(skill.tags ?? [])]),
  ]
  return texts.some((text) => text.toLowerCase().includes(query))
}

function agentIdFrom(cursor: unknown): string | undefined {
  if (typeof cursor !== 'string' || !/^[\w-]{1,2048}$/.test(cursor)) return undefined
  return Buffer.from(cursor, 'base64url').toString()
}

function refused(complaint: string): { readonly ok: false; readonly complaint: string } {
  return { ok: false, complaint: `Bad arguments: ${complaint}` }
}
