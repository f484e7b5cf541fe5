// The library is in a file of the same site. From a web server exactly that file may run: the page's policy and the integrity
// name its hash. Of a file that it opens from the disk a browser checks no integrity, and would refuse one that asks for it.
const library = document.createElement("script");
library.src = LIBRARY.source;
if (location.protocol !== "file:") library.integrity = LIBRARY.integrity;
library.addEventListener("load", draw);
document.head.append(library);
