import type { UserConfig } from 'vite'

/** The page of the playground, as static files that its host serves. */
const config: UserConfig = {
  root: 'src/page',
  base: './',
  build: { outDir: '../../dist/page', emptyOutDir: true },
}

export default config
