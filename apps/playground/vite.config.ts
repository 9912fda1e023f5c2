import type { UserConfig } from 'vite'

/** The page of the playground, as static files that its host serves. */
const config: UserConfig = {
  root: 'src/page',
  base: './',
  // React for production, also when tests build the page: the next `pnpm playground` uses that build.
  define: { 'process.env.NODE_ENV': '"production"' },
  oxc: { jsx: { runtime: 'automatic', development: false } },
  build: { outDir: '../../dist/page', emptyOutDir: true },
}

export default config
