import { build } from 'esbuild'

/** Bundles the handler into one file that needs no `node_modules`. */
export async function bundle(outfile = 'dist/handler.mjs'): Promise<void> {
  await build({
    entryPoints: ['handler.ts'],
    outfile,
    bundle: true,
    minify: true,
    platform: 'node',
    target: 'node22',
    format: 'esm',
  })
}

if (import.meta.main) await bundle()
