// The command `init`: writes the files of a first gateway, for the graphs of a project or for a new one.
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import type { Writable } from 'node:stream'

import { isRecord } from '@x/internal'
import { CommandError, toLine } from '@x/internal/command-line'

import { isPythonGraph, listGraphs } from '../agents/langgraph/config.ts'
import {
  findGraphConfigs,
  graphName,
  installCommand,
  needsManifest,
  packageManagerOf,
  splitGraph,
} from './project.ts'

export interface InitOptions {
  /** It is created if it is missing. */
  readonly folder: string
  /** Graph to offer if there is no `langgraph.json`: `./agent.ts:agent`. */
  readonly graph: string | undefined
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdout: Writable
}

const GRAPHS = 'langgraph.json'
/** Address at which `langgraph dev` listens. */
const LANGGRAPH_DEV = 'http://127.0.0.1:2024'

/** A file to write. */
interface NewFile {
  readonly name: string
  readonly text: string
  /** Description of the file for the user. */
  readonly about: string
}

interface Plan {
  /** Lines about what was found. */
  readonly found: readonly string[]
  readonly files: readonly NewFile[]
  /** Packages that the gateway of these files imports. */
  readonly packages: readonly string[]
  /** A graph in Python needs LangGraph's server. */
  readonly isPython: boolean
}

/**
 * Writes a `gateway.yaml`, and what it needs, into a folder. Changes no file that exists.
 *
 * @throws CommandError if no file can be written, or no graph can be offered; GatewayError `CONFIG` for a wrong `langgraph.json`
 */
export async function initFolder({ folder, graph, env, stdout }: InitOptions): Promise<void> {
  const target = resolve(folder)
  const present = ['gateway.yaml', 'gateway.yml'].find((name) => existsSync(join(target, name)))
  const manager = packageManagerOf(target, env)
  const lines: string[] = []
  const steps: Row[] = []
  if (folder !== '.') steps.push([`cd ${quoted(folder)}`, ''])
  if (present === undefined) {
    const plan = await planOf(target, graph)
    await writeFiles(target, plan.files)
    lines.push(...plan.found, `Written to ${target}:`)
    lines.push(...table(plan.files.map(({ name, about }) => [name, about])))
    const install = await installCommand(target, plan.packages, manager)
    if (install !== undefined) steps.push([install, ''])
    if (plan.isPython) steps.push(['langgraph dev', `LangGraph's server, at ${LANGGRAPH_DEV}`])
  } else {
    lines.push(`${join(target, present)} exists already. Nothing was changed.`)
  }
  const file = present === 'gateway.yml' ? ` ${present}` : ''
  steps.push([`${manager.run} mcp-gateway check${file}`, 'shows the tools, and what is wrong'])
  steps.push([`${manager.run} mcp-gateway${file}`, 'serves http://127.0.0.1:8000/mcp'])
  stdout.write(`${[...lines, 'Next:', ...table(steps)].join('\n')}\n`)
}

type Row = readonly [left: string, right: string]

function table(rows: readonly Row[]): readonly string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd())
}

function quoted(path: string): string {
  return /\s/.test(path) ? JSON.stringify(path) : path
}

// ---- what to write -------------------------------------------------------------------------------------------------

async function planOf(folder: string, graph: string | undefined): Promise<Plan> {
  const configs = await findGraphConfigs(folder)
  if (configs.length > 0) return planForConfigs(folder, configs, graph)
  return graph === undefined ? planForFirstGraph(folder) : planForGraph(folder, graph)
}

/** Offers the graphs of a project. */
async function planForConfigs(
  folder: string,
  configs: readonly string[],
  graph: string | undefined,
): Promise<Plan> {
  const found: string[] = []
  const sources: string[] = []
  const inPython: string[] = []
  let isNamed = graph === undefined
  for (const config of configs) {
    const graphs = await listGraphs(config)
    const name = slashed(relative(folder, config))
    const names = graphs.length === 0 ? 'no graphs' : graphs.map((each) => each.name).join(', ')
    found.push(`Graphs of ${name}: ${names}`)
    isNamed ||= graphs.some(({ path }) => path === graphPath(dirname(config), graph ?? ''))
    const python = graphs.filter(({ isPython }) => isPython)
    // One source must do: the server runs graphs in both languages, and would offer those in TypeScript again.
    if (python.length === 0) sources.push(sourceLine(name))
    inPython.push(...python.map((each) => each.name))
  }
  const [first = ''] = configs
  if (graph !== undefined && !isNamed) {
    const entry = `"${graphName(graph)}": "${graphPath(dirname(first), graph)}"`
    throw new CommandError(`${first} does not name ${graph}: add ${entry} to its graphs`)
  }
  const isPython = inPython.length > 0
  if (isPython) {
    found.push(
      `Node cannot run graphs in Python (${inPython.join(', ')}): LangGraph's server runs them, and the gateway offers what it runs.`,
    )
    sources.push(
      "# Assistants of LangGraph's server, which runs graphs in Python: start it with `langgraph dev`.",
      `- { type: langgraph-server, url: '${LANGGRAPH_DEV}' }`,
    )
  }
  const packages = [NAME, ...(isPython ? ['@langchain/langgraph-sdk'] : [])]
  return { found, files: [await configFile(sources)], packages, isPython }
}

/** Offers a graph that the user names. */
async function planForGraph(folder: string, graph: string): Promise<Plan> {
  if (isPythonGraph(graph)) {
    const advice = `name it in a ${GRAPHS}, start LangGraph's server with \`langgraph dev\`, and run mcp-gateway init again`
    throw new CommandError(`Node cannot run ${graph}, which is in Python: ${advice}`)
  }
  const [file] = splitGraph(graph)
  if (!existsSync(file)) throw new CommandError(`--graph: ${file} does not exist`)
  const config = { graphs: { [graphName(graph)]: graphPath(folder, graph) } }
  const files = [
    { name: GRAPHS, text: json(config), about: `names the graph: ${graphName(graph)}` },
    await configFile([sourceLine(GRAPHS)]),
  ]
  return { found: [], files, packages: [NAME], isPython: false }
}

/** Offers a graph that it writes. */
async function planForFirstGraph(folder: string): Promise<Plan> {
  if (existsSync(join(folder, 'graph.ts'))) {
    const advice = 'name the graph, such as --graph ./graph.ts:graph'
    throw new CommandError(`There is a graph.ts in ${folder}, and no ${GRAPHS}: ${advice}`)
  }
  const own: unknown = JSON.parse(await readFile(MANIFEST, 'utf8'))
  const dependencies = dependenciesOf(isRecord(own) ? own : {})
  const files = [
    { name: 'graph.ts', text: await template('graph.ts'), about: 'a first graph: replace it' },
    { name: GRAPHS, text: await template(GRAPHS), about: 'names the graph' },
    await configFile([sourceLine(GRAPHS)]),
  ]
  if (await needsManifest(folder)) {
    const scripts = { check: 'mcp-gateway check', start: 'mcp-gateway' }
    const manifest = { private: true, type: 'module', scripts, dependencies }
    files.unshift({ name: 'package.json', text: json(manifest), about: 'packages and scripts' })
  }
  return { found: [], files, packages: Object.keys(dependencies), isPython: false }
}

const NAME = '@x/mcp-gateway'
const MANIFEST = createRequire(import.meta.url).resolve(`${NAME}/package.json`)

/** Versions of a first project: this one, and those of LangGraph that it accepts. */
function dependenciesOf(own: Readonly<Record<string, unknown>>): Record<string, string> {
  const peers = isRecord(own['peerDependencies']) ? own['peerDependencies'] : {}
  const names = ['@langchain/core', '@langchain/langgraph']
  const ofGraphs = names.map((name) => [name, String(peers[name])])
  return { ...Object.fromEntries(ofGraphs), [NAME]: `^${String(own['version'])}` }
}

/** Comments in the template that begin with a key are settings to switch on. The first one is for editors. */
async function configFile(sources: readonly string[]): Promise<NewFile> {
  const text = await template('gateway.yaml')
  const lines = sources.map((line) => `  ${line}`).join('\n')
  return {
    name: 'gateway.yaml',
    text: text.replace(/^ {2}- .*$/m, () => lines),
    about: 'settings of the gateway',
  }
}

function template(name: string): Promise<string> {
  return readFile(join(dirname(MANIFEST), 'first-graph', name), 'utf8')
}

function sourceLine(config: string): string {
  const path = config.startsWith('../') ? config : `./${config}`
  return `- { type: langgraph, config: ${/^[\w./-]+$/.test(path) ? path : JSON.stringify(path)} }`
}

/** Returns a graph as a `langgraph.json` in a folder names it. */
function graphPath(folder: string, graph: string): string {
  const [file, exported = 'default'] = splitGraph(graph)
  const path = slashed(relative(folder, resolve(file)))
  return `${path.startsWith('../') ? path : `./${path}`}:${exported}`
}

function slashed(path: string): string {
  return path.replaceAll('\\', '/')
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

// ---- writing -------------------------------------------------------------------------------------------------------

/** Writes files in order. The `gateway.yaml` comes last, so that it never names a file that is missing. */
async function writeFiles(folder: string, files: readonly NewFile[]): Promise<void> {
  const present = new Set<string>(await readdir(folder).catch(() => [])) // with links that lead nowhere
  const taken = files.map(({ name }) => name).filter((name) => present.has(name))
  if (taken.length > 0) {
    throw new CommandError(`In ${folder}, ${taken.join(', ')} exists already. Nothing was changed`)
  }
  const written: string[] = []
  for (const { name, text } of files) {
    const path = join(folder, name)
    try {
      await makeFolder(folder)
      await writeFile(path, text, { flag: 'wx' })
    } catch (cause) {
      const before = written.length > 0 ? `. Written before: ${written.join(', ')}` : ''
      throw new CommandError(`${path} cannot be written: ${toLine(cause)}${before}`, { cause })
    }
    written.push(name)
  }
}

/** `mkdir()` with `recursive` never ends in a file system such as `/proc`. */
async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return
  await makeFolder(dirname(folder))
  await mkdir(folder)
}
