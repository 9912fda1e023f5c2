import { readFile } from 'node:fs/promises'
import { dirname, isAbsolute, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isRecord } from '@x/internal'
import { GatewayError } from '../../errors.ts'
import { isRunnableGraph } from './definition.ts'
import type { GraphDefinition, RunnableGraph } from './definition.ts'

/**
 * Reads the graphs of a `langgraph.json`: `"name": "./path.ts:export"` or `"name": { "path", "description" }`. The
 * export is a compiled graph, or a function that makes one. A file is imported when its graph is made, so a file that
 * cannot be loaded affects its own graph only.
 *
 * @throws GatewayError `CONFIG` if the file is missing, is not JSON, or has no `graphs`
 */
export async function graphsFromConfig(
  file: string | URL,
): Promise<Readonly<Record<string, GraphDefinition>>> {
  const path = resolve(file instanceof URL ? fileURLToPath(file) : file)
  const config = await readJson(path)
  const graphs = isRecord(config) ? config['graphs'] : undefined
  if (!isRecord(graphs)) throw wrong(path, 'graphs', 'must be an object with graphs by name')
  const definitions = Object.entries(graphs).map(([name, entry]): [string, GraphDefinition] => {
    const found = entryFrom(name, entry, path)
    if (found instanceof GatewayError) {
      return [name, { graph: () => Promise.reject(found), description: '' }]
    }
    const graph = (): Promise<RunnableGraph> => graphFrom(found)
    return [name, { graph, description: found.description }]
  })
  return Object.fromEntries(definitions)
}

/** An entry of `graphs`: where it is, and the export that it names. */
interface Place {
  readonly config: string
  readonly where: string
  readonly file: string
  readonly exported: string
  readonly description: string
}

function entryFrom(name: string, entry: unknown, config: string): Place | GatewayError {
  const text = isRecord(entry) ? entry['path'] : entry
  const description = isRecord(entry) ? entry['description'] : undefined
  const where = `graphs.${name}`
  if (typeof text !== 'string') return wrong(config, where, 'must be "./file.ts:export"')
  const [, path = '', exported = 'default'] = /^(.*?)(?::([\w$]+))?$/.exec(text) ?? []
  const file = isAbsolute(path) ? path : resolve(dirname(config), path)
  return {
    config,
    where,
    file,
    exported,
    description: typeof description === 'string' ? description : '',
  }
}

async function graphFrom(place: Place): Promise<RunnableGraph> {
  const { config, where, exported } = place
  const { [exported]: value } = await importFile(place)
  const made: unknown =
    typeof value === 'function' ? await value({ configurable: {} }) : await value
  if (isRunnableGraph(made)) return made
  throw wrong(config, where, `names the export "${exported}", which is not a compiled graph`)
}

async function importFile({ file, where }: Place): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module: unknown = await import(pathToFileURL(file).href)
    return isRecord(module) ? module : {}
  } catch (cause) {
    const [why = ''] = cause instanceof Error ? cause.message.split('\n', 1) : []
    const message = `${file} cannot be loaded${why === '' ? '' : `: ${why}`}`
    throw new GatewayError('CONFIG', message, { cause, path: where })
  }
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const why = isMissing ? 'does not exist' : 'cannot be read as JSON'
    throw new GatewayError('CONFIG', `${path} ${why}`, { cause })
  }
}

function wrong(path: string, where: string, what: string): GatewayError {
  return new GatewayError('CONFIG', `${where} in ${path} ${what}`, { path: where })
}
