// The API reference: pages that typedoc writes from the sources of the published packages.
import { existsSync, globSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { DefaultTheme } from 'vitepress'
import { anchorOf } from './markdown.ts'
import { API, ROOT } from './pages.ts'

const SIDEBAR = join(ROOT, API, 'typedoc-sidebar.json')

/** Entry points of the published packages: the name in an import without its scope, by the file in `src`. */
export function entryPoints(): ReadonlyMap<string, string> {
  const manifests = globSync('packages/*/package.json', { cwd: ROOT }).toSorted()
  return new Map(
    manifests.flatMap((path) => {
      const manifest = JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
      if (manifest.private === true) return []
      return Object.entries<Record<string, string>>(manifest.exports ?? {}).flatMap(
        ([name, target]) => {
          const source = target['mcp-source']
          if (source === undefined) return []
          const folder = dirname(path)
          return [[join(folder, source), join(manifest.name.split('/')[1], name)] as const]
        },
      )
    }),
  )
}

/**
 * Writes the pages, which takes about half a minute. Returns the functions and classes that have no example.
 * Error classes need none: a program does not construct them. Nor do the functions for adapters of a gateway.
 */
export async function writeReference(repository: string): Promise<readonly string[]> {
  const { Application, Converter, ReflectionKind } = await import('typedoc')
  const names = entryPoints()
  // Options of the plugins, which the types of typedoc do not know.
  const pluginOptions = {
    docsRoot: join(ROOT, 'apps/docs'),
    outputFileStrategy: 'members',
    hidePageHeader: true,
    hideBreadcrumbs: true,
    useCodeBlocks: true,
    expandObjects: true,
    parametersFormat: 'table',
    sidebar: { autoConfiguration: true, format: 'vitepress', pretty: false, collapsed: true },
  }
  const app = await Application.bootstrapWithPlugins({
    ...pluginOptions,
    plugin: ['typedoc-plugin-markdown', 'typedoc-vitepress-theme'],
    entryPoints: Array.from(names.keys(), (file) => join(ROOT, file)),
    tsconfig: join(ROOT, 'apps/docs/tsconfig.reference.json'),
    out: join(ROOT, API),
    basePath: ROOT,
    name: 'API reference',
    readme: 'none',
    excludePrivate: true,
    excludeInternal: true,
    excludeExternals: true,
    disableGit: true,
    sourceLinkTemplate: `${repository}/blob/main/packages/{path}#L{line}`,
    logLevel: 'Error', // warnings are about links in comments that lead to what is not exported
    validation: false,
  })
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.getReflectionsByKind(ReflectionKind.Module)) {
      const file = module.isDeclaration() ? module.sources?.[0]?.fullFileName : undefined
      const name = file === undefined ? undefined : names.get(relative(ROOT, file))
      if (name !== undefined) module.name = name
    }
  })
  const project = await app.convert()
  if (project === undefined) throw new Error('typedoc could not read the sources')
  rmSync(join(ROOT, API), { recursive: true, force: true })
  await app.generateOutputs(project)
  return project
    .getReflectionsByKind(ReflectionKind.Class | ReflectionKind.Function)
    .filter((each) => !each.name.endsWith('Error') && !each.getFullName().includes('/adapter.'))
    .filter((each) => {
      const constructors = each.isDeclaration() ? each.getChildByName('constructor') : undefined
      const documented = [each, constructors].flatMap((one) =>
        one?.isDeclaration() ? [one, ...(one.signatures ?? [])] : [],
      )
      return !documented.some(({ comment }) => comment?.getTag('@example') !== undefined)
    })
    .map((each) => `${each.getFullName()} has no @example in its doc comment`)
}

/**
 * Sidebars for the pages, once these are written: each package has its own entries, and a link to each other one. All
 * entries of all packages would be most of the size of each page, and of the time of a build.
 */
export function apiSidebars(): DefaultTheme.SidebarMulti {
  if (!hasReference()) return { '/api/': [] }
  const modules: DefaultTheme.SidebarItem[] = JSON.parse(readFileSync(SIDEBAR, 'utf8'))
  const links = modules.map(({ text, link }) => ({ text, link }))
  const own = modules.map((module) => [
    module.link,
    modules.map((each, index) =>
      each === module ? { ...withLinks(each), collapsed: false } : links[index],
    ),
  ])
  return { '/api/': links, ...Object.fromEntries(own) }
}

/**
 * Gives each group of a module, such as "Classes", the link of its heading. VitePress makes a button of an entry
 * without a link, and puts a second button into it that opens the group, which no screen reader can tell apart.
 */
function withLinks(
  item: DefaultTheme.SidebarItem,
  module: string = item.link ?? '',
): DefaultTheme.SidebarItem {
  const { text = '', link = `${module}#${anchorOf(text)}`, items } = item
  if (items === undefined) return item
  return { ...item, link, items: items.map((each) => withLinks(each, link)) }
}

/** Returns whether the pages were written before. */
export function hasReference(): boolean {
  return existsSync(SIDEBAR)
}
