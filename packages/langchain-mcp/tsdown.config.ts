import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: 'src/index.ts',
  fixedExtension: false,
  dts: true,
  exports: { devExports: 'source' },
  publint: true,
  attw: { profile: 'esm-only' },
})
