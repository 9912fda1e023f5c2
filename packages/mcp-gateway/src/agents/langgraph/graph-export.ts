import { isAbsolute, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { isRecord } from '@x/internal'
import { isRunnableGraph, type RunnableGraph } from './definition.ts'

/** Configuration of a run, as LangGraph's server passes it to a function that makes a graph. */
export interface RunConfig {
  readonly configurable: Readonly<Record<string, unknown>>
}

/** What a file exports: a graph for all runs, or a function that makes the graph of each run. */
export type GraphExport =
  | { readonly graph: RunnableGraph }
  | { readonly make: (config: RunConfig) => Promise<RunnableGraph> }

/**
 * Reads the export of a file as LangGraph's server does: a graph, compiled or not, a promise of one, an agent of
 * `createAgent()`, an `entrypoint()`, or a function that makes one of them.
 *
 * @returns `undefined` for any other value
 */
export async function graphExportFrom(
  value: unknown,
  notGraph: () => Error,
): Promise<GraphExport | undefined> {
  const awaited: unknown = await value
  if (typeof awaited !== 'function') {
    const graph = compiledFrom(awaited)
    return graph && { graph }
  }
  const make = async (config: RunConfig): Promise<RunnableGraph> => {
    const graph = compiledFrom(await awaited(config))
    if (graph === undefined) throw notGraph()
    return graph
  }
  return { make }
}

function compiledFrom(value: unknown): RunnableGraph | undefined {
  const compile = isRecord(value) ? value['compile'] : undefined
  const graph: unknown = typeof compile === 'function' ? compile.call(value) : value
  return isRunnableGraph(graph) ? graph : undefined
}

/**
 * Describes why the file of a graph cannot be loaded: all lines of the error, the lines of source that Node shows for it,
 * and the place in the project that threw it.
 */
export function loadFailureText(cause: unknown, folder: string): string {
  if (!(cause instanceof Error)) return inspect(cause)
  const { message, stack = '' } = cause
  const [head = ''] = stack.split(/\n\s+at /, 1)
  // For a mistake in an import, Node puts the line of source before the name of the error.
  const start = head.search(/^(?:[A-Z]\w*)?Error\b/m)
  const frame = start > 0 ? head.slice(0, start).trimEnd() : ''
  const place = frame === '' ? placeIn(stack, folder) : undefined
  return [message, frame, place === undefined ? '' : `at ${place}`].filter(Boolean).join('\n')
}

/** Returns the first place in a stack that belongs to a project, and not to one of its packages. */
function placeIn(stack: string, folder: string): string | undefined {
  for (const [, at = '', position = ''] of stack.matchAll(/ \(?(\S+?)((?::\d+){1,2})\)?$/gm)) {
    const isUrl = at.startsWith('file:')
    if (!isUrl && !isAbsolute(at)) continue
    const path = relative(folder, isUrl ? fileURLToPath(at) : at)
    if (path.startsWith('..') || path.includes('node_modules')) continue
    // Without source maps, the lines of TypeScript are those of the compiled text.
    return isUrl && /\.[cm]?tsx?$/.test(path) ? path : path + position
  }
  return undefined
}
