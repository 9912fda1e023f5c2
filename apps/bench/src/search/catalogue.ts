import { readFile } from 'node:fs/promises'
import { devNull } from 'node:os'
import { join } from 'node:path'
import type { CreateMcpToolsOptions } from '@x/langchain-mcp'
import { ensureInstalled } from '../../../../.ci/ensure-installed.ts'
import { HOME, UserError } from '../cli.ts'

/** The folder whose dependencies are the servers. */
const CATALOGUE = join(HOME, 'catalogue')

/** A cluster that does not exist: the server of Kubernetes wants one in its settings, and lists without asking it. */
const KUBECONFIG = join(import.meta.dirname, 'kubeconfig.yaml')

/** A token that opens nothing. These servers want one before they list their tools. */
const TOKEN = 'bench'
const NOWHERE = 'http://127.0.0.1:9'

interface ServerProgram {
  readonly package: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Servers on npm that list their tools without a network and without an account. */
const PROGRAMS: Readonly<Record<string, ServerProgram>> = {
  files: { package: '@modelcontextprotocol/server-filesystem', args: [HOME] },
  memory: {
    package: '@modelcontextprotocol/server-memory',
    env: { MEMORY_FILE_PATH: devNull },
  },
  playwright: { package: '@playwright/mcp' },
  devtools: { package: 'chrome-devtools-mcp', args: ['--no-usage-statistics'] },
  kubernetes: { package: 'kubernetes-mcp-server', args: ['--kubeconfig', KUBECONFIG] },
  github: {
    package: '@modelcontextprotocol/server-github',
    env: { GITHUB_PERSONAL_ACCESS_TOKEN: TOKEN },
  },
  gitlab: {
    package: '@zereight/mcp-gitlab',
    env: { GITLAB_PERSONAL_ACCESS_TOKEN: TOKEN, GITLAB_API_URL: `${NOWHERE}/api/v4` },
  },
  notion: { package: '@notionhq/notion-mcp-server', env: { NOTION_TOKEN: TOKEN } },
  chart: { package: '@antv/mcp-server-chart' },
  mobile: { package: '@mobilenext/mobile-mcp' },
}

/** Installs the servers at the first use, and returns how each is started. Their tools are only known when they run. */
export async function catalogueServers(): Promise<CreateMcpToolsOptions['servers']> {
  if (!(await ensureInstalled(CATALOGUE))) {
    throw new UserError('apps/bench/catalogue could not be installed: see the output of pnpm above')
  }
  const entries = Object.entries(PROGRAMS).map(async ([name, { package: of, args = [], env }]) => {
    const script = await programOf(of)
    return [
      name,
      { command: process.execPath, args: [script, ...args], cwd: CATALOGUE, ...(env && { env }) },
    ] as const
  })
  return Object.fromEntries(await Promise.all(entries))
}

/** Returns the script of the first command of a package. */
async function programOf(name: string): Promise<string> {
  const folder = join(CATALOGUE, 'node_modules', name)
  const { bin } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
    bin: string | Record<string, string>
  }
  const script = typeof bin === 'string' ? bin : Object.values(bin)[0]
  if (script === undefined) throw new Error(`${name} has no command`)
  return join(folder, script)
}
