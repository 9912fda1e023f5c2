import { GatewayError } from '../../errors.ts'
import type { Agent, AgentListener, JsonSchema, Skill } from '../agent.ts'
import { contextPlanOf } from './context.ts'
import {
  isRunnableGraph,
  keepsNoThreads,
  keepsThreadsHere,
  threadKeeperOf,
  type GraphDefinition,
  type RunnableGraph,
} from './definition.ts'
import type { GraphExport, RunConfig } from './graph-export.ts'
import type { GraphHost } from './host.ts'
import { contextSchemaOf, skillsOfGraph, takesMessages, untypedInputOf } from './skills.ts'

/** A graph that a program gave, or that a `langgraph.json` names. */
export interface GraphToLoad {
  readonly name: string
  readonly definition: Omit<GraphDefinition, 'graph'>
  /** @throws GatewayError `CONFIG` */
  readonly load: () => Promise<GraphExport>
  /** Gives it a checkpointer and a store. `undefined`: it has what its program gave it. */
  readonly host?: GraphHost | undefined
  /** Further values of `config.configurable` of its runs. */
  readonly configurable?: Readonly<Record<string, unknown>> | undefined
}

export interface LoadedGraph extends Pick<GraphToLoad, 'configurable' | 'definition'> {
  readonly agent: Agent
  /** The graph of all runs, or one that was made at the start to learn what it takes. */
  readonly graph: RunnableGraph
  /** Returns the graph of a run. */
  readonly graphFor: (config: RunConfig) => Promise<RunnableGraph>
  /** Returns the graph that was made last. Its checkpointer keeps the threads. */
  readonly latest: () => RunnableGraph
  /** True for a graph of a `langgraph.json`. */
  readonly isConfigured: boolean
  /** Required fields of its context that the configuration does not set and callers may not set. */
  readonly missing: readonly string[]
}

/** Describes a graph that a program gave. A function makes it once. */
export function graphToLoad(name: string, definition: GraphDefinition): GraphToLoad {
  const load = async (): Promise<GraphExport> => {
    const { graph: given } = definition
    const graph: unknown = typeof given === 'function' ? await given() : given
    if (isRunnableGraph(graph)) return { graph }
    throw new GatewayError('CONFIG', `The agent "${name}" is not a compiled graph`, {
      path: `agents.${name}.graph`,
    })
  }
  return { name, definition, load }
}

/** Loads a graph, and finds out how it is offered. @throws GatewayError `CONFIG` */
export async function loadGraph(
  { configurable, definition, host, load, name }: GraphToLoad,
  listener: AgentListener,
): Promise<LoadedGraph> {
  const warned = (message: string, cause: unknown): void => listener.warned(message, cause)
  const found = await load()
  const equipped = async (made: RunnableGraph): Promise<RunnableGraph> =>
    host ? host.equip(made, 'make' in found) : made
  const graph =
    'make' in found
      ? await found
          .make({ configurable: { ...configurable } })
          .catch((cause: unknown) => {
            if (GatewayError.is(cause)) throw cause // it made something else
            // LangGraph's server calls the function for runs only, so it may need a caller.
            const text = `The function of the graph "${name}" failed without a call, so its tool takes a message. It is called again for each run`
            warned(text, cause)
            return UNKNOWN_GRAPH
          })
          .then(equipped)
      : await equipped(found.graph)
  let latest = graph
  const graphFor = async (config: RunConfig): Promise<RunnableGraph> => {
    if ('make' in found) latest = await equipped(await found.make(config))
    return latest
  }
  const named = await skillsOfGraph({ name, definition, graph }, (cause) => {
    warned(`The schema of the graph "${name}" cannot be read, so its tool takes a message`, cause)
  })
  const skills = named.length === 0 && host ? untypedSkills(name, definition, graph) : named
  const contextSchema = await contextSchemaOf(graph).catch((cause: unknown) => {
    warned(`The context schema of the graph "${name}" cannot be read`, cause)
    return undefined
  })
  const { callerSchema, missing } = contextPlanOf(contextSchema, definition)
  const canAsk = graph === UNKNOWN_GRAPH || threadKeeperOf(graph) !== undefined
  const agent: Agent = {
    id: name,
    name: definition.name ?? name,
    description: definition.description,
    skills: withContext(skills, callerSchema, { id: name, description: definition.description }),
    health: 'healthy',
    ...(definition.ui && { ui: definition.ui }),
    canAsk,
    // A graph that is made for each run may have a checkpointer then.
    ...(!('make' in found) && keepsNoThreads(graph) && { keepsThreads: false }),
    canContinue: threadKeeperOf(graph) !== undefined && !keepsThreadsHere(graph),
  }
  return {
    agent,
    configurable,
    definition,
    graph,
    graphFor,
    latest: () => latest,
    isConfigured: host !== undefined,
    missing,
  }
}

/** Stands for a graph that cannot be made before a call. */
const UNKNOWN_GRAPH: RunnableGraph = {
  stream: () => Promise.reject(new Error('This graph is made for each run')),
}

/** LangGraph's server accepts any input. A graph whose input has fields without types gets a tool with these parameters. */
function untypedSkills(
  name: string,
  { description, input }: GraphToLoad['definition'],
  graph: RunnableGraph,
): readonly Skill[] {
  const inputSchema =
    input !== undefined || takesMessages(graph) ? undefined : untypedInputOf(graph)
  if (inputSchema === undefined) return []
  return [{ id: name, name: '', description, inputSchema, startsFrom: 'arguments' }]
}

/** Adds the parameter `context` to tools, also to that of an agent without skills. */
function withContext(
  skills: readonly Skill[],
  contextSchema: JsonSchema | undefined,
  { id, description }: Pick<Skill, 'id' | 'description'>,
): readonly Skill[] {
  if (contextSchema === undefined) return skills
  const all = skills.length > 0 ? skills : [{ id, name: '', description }]
  return all.map((skill) => ({ ...skill, contextSchema }))
}
