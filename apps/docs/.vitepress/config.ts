import { globSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import type { DefaultTheme } from 'vitepress'
import llmstxt from 'vitepress-plugin-llms'
import { anchorOf, extendMarkdown, REPOSITORY } from '../src/markdown.ts'
import {
  API,
  groups,
  INDEX,
  ROOT,
  siteAddress,
  sitePages,
  sitePath,
  titleOf,
} from '../src/pages.ts'
import type { Entry, Group } from '../src/pages.ts'
import { apiSidebars } from '../src/reference.ts'

const HOME = join(ROOT, 'apps/docs')
const pages = new Set(sitePages())
const others = globSync(['*.md', '{docs,apps,packages,examples}/**/*.md', '.*/**/*.md'], {
  cwd: ROOT,
  exclude: (name) => name === 'node_modules',
}).filter((file) => !pages.has(file) && !file.startsWith(`${API}/`))

const sidebar = groups().map(sidebarOf)

export default defineConfig({
  title: titleOf('README.md'),
  description: 'MCP sessions that outlive the process that opened them, for LangGraph agents',
  lang: 'en',
  srcDir: ROOT,
  srcExclude: [...others, '**/CHANGELOG.md'],
  outDir: join(HOME, 'dist'),
  cacheDir: join(HOME, 'node_modules/.vitepress'),
  base: process.env['DOCS_BASE'] ?? '/',
  rewrites: sitePath,
  cleanUrls: true,
  appearance: true,
  markdown: {
    config: extendMarkdown,
    anchor: { slugify: anchorOf },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  vite: {
    plugins: [
      llmstxt({ ignoreFiles: [`${API}/**`], sidebar }),
      {
        name: 'external-vue', // pages are outside of this package, and find no `vue` there
        enforce: 'pre',
        resolveId: (id, _importer, { ssr }) =>
          ssr === true && /^vue(?:\/|$)/.test(id) ? { id, external: true } : undefined,
      },
    ],
    build: { chunkSizeWarningLimit: 4_000 },
  },
  themeConfig: {
    siteTitle: 'mcp-sessions',
    search: {
      provider: 'local',
      options: { translations: { button: { buttonText: 'Search', buttonAriaLabel: 'Search' } } },
    },
    nav: [
      { text: 'Contents', link: siteAddress(INDEX) },
      { text: 'API', link: '/api/' },
    ],
    sidebar: { '/': sidebar, ...apiSidebars() },
    outline: { level: [2, 3] },
    editLink: { pattern: `${REPOSITORY}/blob/main/:path`, text: 'Source of this page' },
    socialLinks: [],
  },
})

function sidebarOf(item: Entry | Group): DefaultTheme.SidebarItem {
  if ('entries' in item) return { text: item.title, items: item.entries.map(sidebarOf) }
  if (pages.has(item.path)) return { text: titleOf(item.path), link: siteAddress(item.path) }
  return { text: item.text, link: `${REPOSITORY}/tree/main/${item.path}` }
}
