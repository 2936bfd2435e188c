// Builds index.html, app.js, app.css and favicon.svg: one file of each, with names that never change.
import optimizeLocales from '@react-aria/optimize-locales-plugin';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/console/',
  // Without it the components bring their words in thirty languages; the console speaks one.
  plugins: [{ ...optimizeLocales.vite({ locales: ['en-US'] }), enforce: 'pre' }],
  build: {
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        inlineDynamicImports: true,
        entryFileNames: 'app.js',
        assetFileNames: (asset) => (asset.names[0]?.endsWith('.css') ? 'app.css' : '[name][extname]'),
      },
    },
  },
  server: { proxy: { '/v1': process.env.ASHLAR_API ?? 'http://127.0.0.1:4173' } },
});
