import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { decodeText, isRecord, nearestWord } from '@x/internal'
import { GatewayError } from '../../errors.ts'
import { messageFieldOf, type AgentInput, type JsonSchema } from '../agent.ts'
import { applyEnv, runDefaults, warnOfUnused } from './config-keys.ts'
import type { GraphDefinition } from './definition.ts'
import { graphExportFrom, loadFailureText, type GraphExport } from './graph-export.ts'
import { importGraphFile } from './typescript.ts'

type Warn = (message: string, cause?: unknown) => void

/** A graph that a `langgraph.json` names. */
export interface ConfiguredGraph {
  readonly name: string
  readonly definition: Omit<GraphDefinition, 'graph'>
  /** Further values of `config.configurable` of its runs. */
  readonly configurable: Readonly<Record<string, unknown>> | undefined
  /** Imports its file. @throws GatewayError `CONFIG` */
  readonly load: () => Promise<GraphExport>
}

/**
 * Reads a `langgraph.json` as LangGraph's server does, and sets the variables of its `env`. Each graph is
 * `"name": "./path.ts:export"`, or an object with this `path`, a `description`, and `input`, the JSON schema of its input.
 *
 * @param warn called for each key that is not used
 * @throws GatewayError `CONFIG` if the file is missing, is not JSON, or has no `graphs`
 */
export async function readGraphConfig(
  file: string | URL,
  warn: Warn,
): Promise<readonly ConfiguredGraph[]> {
  const path = resolve(file instanceof URL ? fileURLToPath(file) : file)
  const { config, graphs } = await readFileOfGraphs(path)
  warnOfUnused(path, config, warn)
  await applyEnv(path, config['env'], warn)
  const defaults = runDefaults(warn)
  // One after the other: a file that `require()` loads must not be half loaded by the import of another graph.
  let last: Promise<unknown> = Promise.resolve()
  return Object.entries(graphs).map(([name, entry]) => {
    const { configurable, ...ofRuns } = defaults.get(name) ?? {}
    const load = (): Promise<GraphExport> => {
      const next = last.then(() => loadGraph({ config: path, name, entry, warn }))
      last = next.catch(() => undefined)
      return next
    }
    return { name, definition: { ...definitionOf(name, entry), ...ofRuns }, configurable, load }
  })
}

/** A graph as a `langgraph.json` names it. */
interface NamedGraph {
  readonly name: string
  /** As it is written: `./path.ts:export`. `undefined`: the entry is wrong. */
  readonly path: string | undefined
  readonly isPython: boolean
}

/**
 * Lists the graphs of a `langgraph.json`, and loads none.
 *
 * @throws GatewayError `CONFIG` if the file is missing, is not JSON, or has no `graphs`
 */
export async function listGraphs(file: string): Promise<readonly NamedGraph[]> {
  const { graphs } = await readFileOfGraphs(file)
  return Object.entries(graphs).map(([name, entry]) => {
    const path = pathOf(entry)
    return { name, path, isPython: path !== undefined && isPythonGraph(path) }
  })
}

/** Returns whether a graph is a file in Python, or a module of Python: `package.module:graph`. */
export function isPythonGraph(path: string): boolean {
  const isModule = /^\w+(?:\.\w+)*:\w+$/.test(path) && !/\.[cm]?[jt]sx?:/.test(path)
  return isModule || /\.py[xdi]?(?::\w+)?$/.test(path)
}

function keyLikeGraphs(config: object): string | undefined {
  return Object.keys(config).find((key) => nearestWord(key, ['graphs']) !== undefined)
}

async function readFileOfGraphs(path: string) {
  const config = await readJson(path)
  const graphs = isRecord(config) ? config['graphs'] : undefined
  if (!isRecord(config) || !isRecord(graphs)) {
    const near = isRecord(config) && graphs === undefined ? keyLikeGraphs(config) : undefined
    const advice = near === undefined ? '' : `. Did you mean "graphs" by "${near}"?`
    throw wrong(path, 'graphs', `must be an object with graphs by name${advice}`)
  }
  return { config, graphs }
}

function pathOf(entry: unknown): string | undefined {
  const text = isRecord(entry) ? entry['path'] : entry
  return typeof text === 'string' ? text : undefined
}

function definitionOf(name: string, entry: unknown): Omit<GraphDefinition, 'graph'> {
  const { description: described, input: schema } = isRecord(entry) ? entry : {}
  const description = typeof described === 'string' ? described : ''
  if (!isRecord(schema)) return { description }
  if (schema['type'] === 'string') return { description, input: textOf }
  const skill = {
    id: name,
    name: '',
    description,
    inputSchema: schema,
    startsFrom: 'arguments',
  } as const
  return { description, skills: [skill], input: (input) => valuesOf(input, schema) }
}

function textOf(input: AgentInput): string {
  return input.kind === 'message' ? input.text : JSON.stringify(input.value)
}

function valuesOf(input: AgentInput, schema: JsonSchema): unknown {
  if (input.kind === 'arguments') return input.value
  const field = messageFieldOf(schema)
  return field === undefined ? undefined : { [field]: input.text }
}

interface Entry {
  /** Path of the `langgraph.json`. */
  readonly config: string
  readonly name: string
  readonly entry: unknown
  readonly warn: Warn
}

async function loadGraph({ config, name, entry, warn }: Entry): Promise<GraphExport> {
  const text = pathOf(entry)
  const where = `graphs.${name}`
  if (text === undefined) throw wrong(config, where, 'must be "./file.ts:export"')
  const [, path = '', exported = 'default'] = /^(.*?)(?::([\w$]+))?$/.exec(text) ?? []
  if (isPythonGraph(text)) {
    const advice =
      "Run it with LangGraph's server for Python, and offer it with a source of type langgraph-server"
    throw wrong(config, where, `is a graph in Python, which Node cannot run. ${advice}`)
  }
  const notGraph = (): GatewayError =>
    wrong(config, where, `names the export "${exported}", which is not a graph`)
  const file = resolve(dirname(config), path)
  if (!existsSync(file)) throw wrong(config, where, `names a file that does not exist: ${file}`)
  try {
    const module = await importGraphFile(file, warn)
    if (!Object.hasOwn(module, exported)) {
      const names = Object.keys(module).join(', ') || 'nothing'
      const problem = `names the export "${exported}", but ${file} exports ${names}`
      throw wrong(config, where, problem)
    }
    const { [exported]: value } = module
    const found = await graphExportFrom(value, notGraph)
    if (found === undefined) throw notGraph()
    return found
  } catch (cause) {
    if (GatewayError.is(cause)) throw cause
    throw notLoaded(file, where, { cause, folder: dirname(config) })
  }
}

function notLoaded(
  file: string,
  where: string,
  { cause, folder }: { readonly cause: unknown; readonly folder: string },
): GatewayError {
  const why = loadFailureText(cause, folder)
  const [, name = ''] = /^Cannot find package '((?:@[^/']+\/)?[^/']+)/.exec(why) ?? []
  const message =
    name === '' || name === '@'
      ? `${file} cannot be loaded: ${why}`
      : `${file} needs the package ${name}, which is not installed: npm install ${name}`
  return new GatewayError('CONFIG', message, { cause, path: where })
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(decodeText(await readFile(path)))
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (isMissing) throw new GatewayError('CONFIG', `${path} does not exist`, { cause: error })
    // The text of a syntax error contains a part of the file, which may be a secret of `env`.
    const [place = ''] = /line \d+ column \d+/.exec(String(error)) ?? []
    const why = error instanceof SyntaxError ? place : String(error)
    const reason = ['cannot be read as JSON', why].filter((each) => each !== '').join(': ')
    throw new GatewayError('CONFIG', `${path} ${reason}`)
  }
}

function wrong(path: string, where: string, what: string): GatewayError {
  return new GatewayError('CONFIG', `${where} in ${path} ${what}`, { path: where })
}
